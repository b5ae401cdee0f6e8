import { failTeam, resetTeam, type TeamMemory, teamMemory } from "../runtime/mod.ts";
import { EngineWorker } from "./engine_worker.ts";
import type { DeviceSettings, FromWorker, RankMessage, ToWorker } from "./protocol.ts";
import type { ParallelOptions } from "./options.ts";

/** How many GPUs make a request together. */
export function groupSize(parallel: ParallelOptions): number {
  const { guidance, ulysses, ring, layers } = sizesOf(parallel);
  return guidance * ulysses * ring * layers;
}

function sizesOf({ guidance = false, ulysses = 1, ring = 1, layers = 1 }: ParallelOptions) {
  if (ulysses * ring > 1 && layers > 1) {
    throw new RangeError(
      "Cannot share both the tokens and the layers of a pass: choose ulysses and ring degrees, or layers",
    );
  }
  return { guidance: guidance ? 2 : 1, ulysses, ring, layers };
}

interface Seats {
  readonly ranks: readonly RankMessage[];
  readonly memories: readonly TeamMemory[];
}

/** Neighbours share a pass; those at the same place of each pass share the guidance. */
function seatsOf(parallel: ParallelOptions): Seats {
  const { guidance, ulysses, ring, layers } = sizesOf(parallel);
  const size = ulysses * ring * layers;
  const teams = (count: number, size: number) =>
    Array.from({ length: size > 1 ? count : 0 }, () => teamMemory(size));
  const [passes, parts] = [teams(size, guidance), teams(guidance, size)];
  const ranks = Array.from({ length: guidance * size }, (_, i): RankMessage => {
    const [pass, part] = [Math.floor(i / size), i % size];
    const [whole, shared] = [passes[part], parts[pass]];
    const seat = shared && { memory: shared, rank: part };
    return {
      ...(whole && { guidance: { memory: whole, rank: pass } }),
      ...(seat && layers > 1 && { layers: seat }),
      ...(seat && layers === 1 && { sequence: { ...seat, ulysses } }),
    };
  });
  return { ranks, memories: [...passes, ...parts] };
}

/**
 * Several workers, each with a GPU, that make every request together and act as one: what comes before an answer comes
 * from the first. When one of them fails, the others do not wait for it.
 */
export class WorkerGroup extends EngineWorker {
  readonly #newWorker: (rank: number) => EngineWorker;
  readonly #seats: Seats;
  readonly #devices: readonly Partial<DeviceSettings>[];
  /** Started with the model: questions about it need only the first. */
  #others: readonly EngineWorker[] = [];

  /** @param devices what is special about the device of each */
  constructor(
    parallel: ParallelOptions,
    devices: readonly Partial<DeviceSettings>[] = [],
    first?: Worker,
    newWorker: (rank: number) => EngineWorker = () => new EngineWorker(),
  ) {
    super(first);
    this.#newWorker = newWorker;
    this.#devices = devices;
    this.#seats = seatsOf(parallel);
  }

  /** True when one of them must be replaced, and so all. */
  override get isBroken(): boolean {
    return super.isBroken || this.#others.some(({ isBroken }) => isBroken);
  }

  override async ask(
    message: ToWorker,
    onEvent?: (event: FromWorker) => void,
  ): Promise<FromWorker> {
    switch (message.type) {
      case "open":
        return await this.#open(message, onEvent);
      case "generate":
        this.#seats.memories.forEach(resetTeam);
        return await this.#askAll(message, { ...message, previews: 0 }, onEvent);
      case "prepare":
      case "release":
        return await this.#askAll(message, message, onEvent);
      case "check":
      case "plan":
        return await super.ask({ ...message, ranks: this.#seats.ranks[0]! }, onEvent);
      default:
        return await super.ask(message, onEvent);
    }
  }

  override terminate(reason?: unknown): void {
    for (const worker of this.#others) worker.terminate(reason);
    super.terminate(reason);
  }

  override async close(reason?: unknown, limitMs?: number): Promise<void> {
    const closing = this.#others.map((worker) => worker.close(reason, limitMs));
    await Promise.all([super.close(reason, limitMs), ...closing]);
  }

  async #open(
    message: Extract<ToWorker, { type: "open" }>,
    onEvent?: (event: FromWorker) => void,
  ): Promise<FromWorker> {
    const { ranks } = this.#seats;
    this.#others = ranks.slice(1).map((_, i) => this.#newWorker(i + 1));
    const messages = ranks.map((seat, rank) => ({
      ...message,
      ranks: seat,
      device: { ...message.device, ...this.#devices[rank] },
    }));
    const first = super.ask(messages[0]!, onEvent);
    // The others find what the first measures of its kernels.
    if (message.tuning?.mode === "auto") await first;
    const [answer] = await this.#all([
      first,
      ...this.#others.map((worker, i) => worker.ask(messages[i + 1]!)),
    ]);
    return answer!;
  }

  async #askAll(
    first: ToWorker,
    others: ToWorker,
    onEvent?: (event: FromWorker) => void,
  ): Promise<FromWorker> {
    const [answer, ...rest] = await this.#all([
      super.ask(first, onEvent),
      ...this.#others.map((worker) => worker.ask(others)),
    ]);
    if (answer!.type !== "generated") return answer!;
    const peaks = rest.map((other) => other.type === "generated" ? other.peakBytes : 0);
    return { ...answer!, peakBytes: Math.max(answer!.peakBytes, ...peaks) };
  }

  /** Waits for all; when one fails, the others soon do, and the first that did not fail of another is told. */
  async #all(answers: readonly Promise<FromWorker>[]): Promise<FromWorker[]> {
    const failures: Error[] = [];
    const settled = await Promise.all(answers.map((answer) =>
      answer.catch((error: Error) => {
        failures.push(error);
        this.#seats.memories.forEach(failTeam);
        return undefined;
      })
    ));
    const own = failures.find(({ name }) => name !== "TeamError") ?? failures[0];
    if (own) throw own;
    return settled as FromWorker[];
  }
}
