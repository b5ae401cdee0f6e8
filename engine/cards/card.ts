/** One card: the models on it, what it has done, and how long it takes. */

import type { Engine, ModelInfo } from "../types.ts";
import type { CardPlan } from "./choose_cards.ts";

/** Where a card is: `loading` a model, at work, waiting for work, or out of use. */
export type CardState = "idle" | "busy" | "loading" | "lost";

export interface CardEngine extends Engine {
  /** The adapter as its driver names it. */
  readonly adapter?: string;
  /** Takes at most so many bytes of the device from the next load on. */
  limitMemory(bytes: number): void;
}

export interface Demand {
  /** Public name of the model; any model by default. */
  readonly model?: string | undefined;
  /** Pixels times steps; the model's usual by default. */
  readonly work?: number | undefined;
  /** The job that it is a part of. */
  readonly job?: string | undefined;
  /** Cards that it cannot be made on. */
  readonly excluded?: ReadonlySet<Card>;
  readonly signal?: AbortSignal | undefined;
}

interface Run extends Demand {
  readonly since: number;
  /** Seconds that it was expected to take. */
  readonly expected: number;
  /** Whether the model had to be loaded first. */
  readonly isCold: boolean;
}

interface CardOptions {
  readonly onNote: (line: string) => void;
  /** Whether several models will share the card: each takes only a part of the memory from the first load on. */
  readonly isShared: boolean;
  /** Milliseconds from any moment on. */
  readonly now: () => number;
}

interface Pace {
  /** Seconds for each unit of work; nothing until it is known. */
  rate?: number;
  /** Work of a usual generation. */
  work: number;
  /** Seconds that loading takes. */
  load?: number;
  /** Generations since the model was loaded: the first compiles kernels, and says nothing. */
  runs: number;
}

/** How much the latest measurement counts. */
const LATEST = 0.5;
/** Over how long a card's utilisation is told, in milliseconds. */
const WINDOW_MS = 60_000;
/** How fast weights come in until it was measured, in bytes a second. */
const LOAD_BYTES = 1e9;
/** Share of the memory in which models that are not at work may stay. */
const RESTING_SHARE = 1 / 4;

/**
 * A GPU of the server. Its models take turns: one works at a time, and the memory that it needs is free then. Models that
 * were used longest ago leave first, and never in the middle of their work.
 */
export class Card {
  /** The adapter as its driver names it. */
  name: string;
  readonly models = new Map<string, CardEngine>();
  loading = 0;
  /** Whether the card gets no more work. */
  isLeftOut = false;
  /** Times that it was lost since it last did something. */
  losses = 0;
  lastError: string | undefined;
  /** The job that it is kept for. */
  reservedFor: string | undefined;
  /** Jobs that it was kept for and that have ended. */
  jobsDone = 0;
  /** Images and videos that it made. */
  outputsDone = 0;
  readonly #options: CardOptions;
  readonly #openedAt: number;
  /** Names of models, used longest ago first. */
  readonly #byUse = new Set<string>();
  /** Models that were loaded while there was no other, and may take all of the memory. */
  readonly #alone = new Set<string>();
  #turn: Promise<unknown> = Promise.resolve();
  readonly #paces = new Map<string, Pace>();
  /** Times at which it was at work, the latest last. */
  readonly #busy: { from: number; to: number }[] = [];
  #run: Run | undefined;

  /** @param id number of the GPU, or of the worker if several workers share one */
  constructor(readonly id: number, readonly plan: CardPlan, options: CardOptions) {
    this.name = plan.name;
    this.#options = options;
    this.#openedAt = options.now();
  }

  get state(): CardState {
    if (this.isLeftOut) return "lost";
    if (this.loading > 0) return "loading";
    return this.#run || this.reservedFor !== undefined ? "busy" : "idle";
  }

  /** Whether the card can get work, now or later. */
  get isUsable(): boolean {
    return !this.isLeftOut && this.models.size > 0;
  }

  /** Whether nothing runs on it, and it is not being opened again. */
  get isFree(): boolean {
    return this.#run === undefined && this.isUsable && this.loading === 0;
  }

  get job(): string | undefined {
    return this.#run?.job ?? this.reservedFor;
  }

  /** Share of the last minute in which it was at work, 0 to 1. */
  get utilisation(): number {
    const now = this.#options.now();
    const from = Math.max(this.#openedAt, now - WINDOW_MS);
    const running = this.#run ? [{ from: this.#run.since, to: now }] : [];
    let busy = 0;
    for (const one of [...this.#busy, ...running]) {
      busy += Math.max(0, one.to - Math.max(from, one.from));
    }
    return now > from ? Math.min(1, busy / (now - from)) : 0;
  }

  has({ model }: Demand): boolean {
    return model === undefined ? this.models.size > 0 : this.models.has(model);
  }

  /** Seconds until what runs has ended, as far as is known. */
  get remaining(): number {
    if (!this.#run) return 0;
    const elapsed = (this.#options.now() - this.#run.since) / 1000;
    // What takes longer than it should may take as long again.
    return elapsed < this.#run.expected ? this.#run.expected - elapsed : elapsed;
  }

  /** Seconds that a generation takes here, with loading; 0 where nothing is known. */
  expected({ model, work }: Demand, others: readonly Card[]): number {
    if (model === undefined) return 0;
    const engine = this.models.get(model);
    const known = [this, ...others].flatMap((card) => card.#paces.get(model) ?? []);
    const own = this.#paces.get(model);
    const rate = own?.rate ?? mean(known.flatMap(({ rate }) => rate ?? []));
    const load = own?.load ?? mean(known.flatMap(({ load }) => load ?? [])) ??
      (engine?.info.weightBytes ?? 0) / LOAD_BYTES;
    const usual = work ?? own?.work ?? mean(known.map(({ work }) => work)) ?? 0;
    return (rate ?? 0) * usual + (engine?.residence !== "loaded" ? load : 0);
  }

  begin(demand: Demand, expected: number): void {
    const isCold = demand.model !== undefined &&
      this.models.get(demand.model)?.residence !== "loaded";
    this.#run = { ...demand, expected, isCold, since: this.#options.now() };
  }

  end(isDone: boolean): void {
    const run = this.#run;
    if (!run) return;
    this.#run = undefined;
    const to = this.#options.now();
    this.#busy.push({ from: run.since, to });
    while (this.#busy[0]!.to < to - WINDOW_MS) this.#busy.shift();
    if (!isDone) return;
    this.outputsDone++;
    this.losses = 0;
    if (run.model !== undefined && run.work) this.#learn(run.model, run.work, to - run.since, run);
  }

  add(model: string, engine: CardEngine): void {
    this.models.set(model, engine);
    this.#byUse.add(model);
    if (!this.#isShared) return void this.#alone.add(model);
    for (const each of this.models.values()) {
      const resting = restingBytes(each.info);
      // What rests beside it and what it takes are never more than there is together.
      if (resting > 0) each.limitMemory(each.info.deviceBytes! - resting);
    }
  }

  /** Closes a model after all that was asked for before. */
  remove(model: string): Promise<void> {
    return this.#inTurn(async () => {
      const engine = this.models.get(model);
      this.models.delete(model);
      for (const names of [this.#byUse, this.#alone, this.#paces]) names.delete(model);
      await engine?.close();
    });
  }

  get #isShared(): boolean {
    return this.#options.isShared || this.models.size > 1;
  }

  /** Runs work when all that was asked of the card before is done; the model is loaded then. */
  run<T>(
    model: string,
    work: (engine: CardEngine) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    return this.#inTurn(async () => {
      signal?.throwIfAborted();
      const engine = this.models.get(model);
      if (!engine) throw new Error(`Cannot generate: the model ${model} was removed`);
      if (this.#isShared && engine.residence !== "loaded") this.#alone.delete(model);
      await this.#makeRoom(model);
      await engine.load();
      return await work(engine);
    });
  }

  /** Brings a model onto the card after all that was asked for before. */
  load(model: string): Promise<void> {
    return this.run(model, () => Promise.resolve());
  }

  /** Takes a model off the card after all that was asked for before. */
  unload(model: string): Promise<void> {
    return this.#inTurn(async () => await this.models.get(model)?.unload());
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
  }

  async #makeRoom(model: string): Promise<void> {
    this.#byUse.delete(model);
    const others = [...this.#byUse].flatMap((name) => {
      const engine = this.models.get(name);
      return engine?.residence === "loaded" ? [{ name, engine }] : [];
    });
    this.#byUse.add(model);
    const room = this.#alone.has(model) ? 0 : restingBytes(this.models.get(model)!.info);
    let bytes = others.reduce((sum, { engine }) => sum + engine.info.weightBytes, 0);
    for (const { name, engine } of others) {
      if (bytes <= room) return;
      bytes -= engine.info.weightBytes;
      await engine.unload();
      this.#options.onNote(`Unloaded ${name}: ${model} takes its place`);
    }
  }

  #learn(model: string, work: number, ms: number, { isCold }: Run): void {
    const pace = this.#paces.get(model) ?? { work, runs: 0 };
    this.#paces.set(model, pace);
    pace.work += LATEST * (work - pace.work);
    const seconds = ms / 1000;
    if (isCold) {
      pace.runs = 0;
      if (pace.rate !== undefined) pace.load = Math.max(0, seconds - pace.rate * work);
    }
    if (pace.runs++ === 0) return;
    const rate = seconds / work;
    pace.rate = pace.rate === undefined ? rate : pace.rate + LATEST * (rate - pace.rate);
  }
}

/** How much of the others' weights may stay beside a model: nothing beside a large one, or if nobody knows. */
function restingBytes({ deviceBytes = 0, weightBytes }: ModelInfo): number {
  const resting = deviceBytes * RESTING_SHARE;
  return weightBytes <= resting ? resting : 0;
}

function mean(values: readonly number[]): number | undefined {
  return values.length === 0
    ? undefined
    : values.reduce((sum, value) => sum + value) / values.length;
}
