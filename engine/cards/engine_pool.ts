/** One model on several cards: each generation goes to the card where it ends first. */

import type { Residence } from "../shared_device.ts";
import type {
  Engine,
  Frames,
  GenerateRequest,
  GenerationControl,
  LoraReport,
  LoraUse,
  ModelInfo,
  RoomRequest,
} from "../types.ts";
import type { Card } from "./card.ts";
import type { Cards } from "./cards.ts";

/** What a pool is made of. */
export interface PoolOptions {
  /** The model's public name. */
  readonly name: string;
  /** All cards of the server. */
  readonly cards: Cards;
  /** Cards that the model may be on; at least one. */
  readonly on: readonly Card[];
  /** Opens the model on a card. */
  readonly open: (card: Card) => Promise<PoolMember>;
  /** Takes lines for the log. */
  readonly onNote?: ((line: string) => void) | undefined;
}

/** The model on one card. */
export interface PoolMember extends Engine {
  /** Where the model is. */
  readonly residence?: Residence;
}

/** An engine for one model on several GPUs. */
export class EnginePool implements Engine {
  readonly #options: PoolOptions;
  readonly #members = new Map<Card, PoolMember>();
  /** What is still being opened. */
  #rest: Promise<unknown> = Promise.resolve();
  #bytes: number | undefined;
  #isClosed = false;

  private constructor(options: PoolOptions) {
    this.#options = options;
  }

  /**
   * Opens a model: on one card first, which brings its files here and measures kernels; on the others while the first one
   * works.
   *
   * @returns the pool, with the model on at least one card
   * @throws what opening it on the first card throws, when it cannot be opened on any
   */
  static async open(options: PoolOptions): Promise<EnginePool> {
    const pool = new EnginePool(options);
    const left = [...options.on];
    const failures: unknown[] = [];
    for (const card of left) card.loading++;
    try {
      while (pool.#members.size === 0) {
        const card = left.shift();
        if (!card) throw failures[0];
        await pool.#open(card).catch((error) => failures.push(error));
      }
    } finally {
      if (pool.#members.size === 0) { for (const card of left) card.loading--; }
    }
    pool.#rest = Promise.all(left.map((card) => pool.#open(card).catch(() => {})));
    return pool;
  }

  /** Resolves when it is open wherever it can be. */
  get settled(): Promise<void> {
    return this.#rest.then(() => {});
  }

  /** See {@linkcode Engine.lanes}. */
  get lanes(): number {
    // A card that is still loading may have the model in time.
    return Math.max(1, this.#options.on.filter(({ isLeftOut }) => !isLeftOut).length);
  }

  /** See {@linkcode Engine.info}. */
  get info(): ModelInfo {
    return this.#first().info;
  }

  /** See {@linkcode Engine.isLoaded}: on any card. */
  get isLoaded(): boolean {
    return this.#usable().some(([, { isLoaded }]) => isLoaded);
  }

  /** Where the model is, on the card where it is most. */
  get residence(): Residence {
    const all = this.#usable().map(([, { residence, isLoaded }]) =>
      residence ?? (isLoaded ? "loaded" : "unloaded")
    );
    return (["loaded", "loading"] as const).find((one) => all.includes(one)) ?? "unloaded";
  }

  /** See {@linkcode Engine.generate}. A generation whose card is lost is made again on another, once. */
  async generate(request: GenerateRequest, control: GenerationControl = {}): Promise<Frames> {
    const { cards, name } = this.#options;
    const { signal, job } = control;
    const watched = new WatchedControl(control);
    const excluded = new Set<Card>();
    for (let losses = 0;;) {
      const work = workOf(request, this.info);
      const lease = await cards.acquire({ model: name, work, job, excluded, signal });
      const { card } = lease;
      const member = this.#members.get(card)!;
      let frames: Frames | undefined;
      try {
        frames = await member.generate(request, watched.control);
      } catch (error) {
        if (signal?.aborted || !(error instanceof Error)) throw error;
        if (GPU_ERRORS.has(error.name)) card.lastError = error.message;
        const isLost = error.name === "DeviceLostError";
        if (isLost) cards.lose(card, error, () => member.load());
        const isLarger = (other: Card) => other.plan.memoryBytes > card.plan.memoryBytes;
        const canMove = !watched.hasGiven &&
          this.#usable().some(([other]) =>
            !excluded.has(other) && other !== card && (isLost || isLarger(other))
          );
        if (isLost ? ++losses > 1 || !canMove : !isRefusal(error) || !canMove) throw error;
        excluded.add(card);
        watched.again();
        this.#note(
          isLost
            ? `${job ?? "A request"} is begun again on another GPU`
            : `${job ?? "A request"} does not fit GPU ${card.id}, and goes to a larger one`,
        );
      } finally {
        lease.end(frames !== undefined);
      }
      if (frames) return frames;
    }
  }

  /** See {@linkcode Engine.checkRoom}: on the card with the most memory. */
  checkRoom(request: RoomRequest): Promise<void> {
    const largest = this.#usable().reduce(
      (one, other) => (other[0].plan.memoryBytes > one[0].plan.memoryBytes ? other : one),
      [...this.#members][0]!,
    );
    return largest[1].checkRoom(request);
  }

  /** See {@linkcode Engine.checkLoras}. */
  checkLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    return this.#first().checkLoras(loras);
  }

  /** See {@linkcode Engine.prepareLoras}: on every card that has the model. */
  async prepareLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    const loaded = this.#usable().map(([, member]) => member).filter(({ isLoaded }) => isLoaded);
    const [first = this.#first(), ...others] = loaded;
    const reports = await first.prepareLoras(loras);
    await Promise.all(others.map((member) => member.prepareLoras(loras)));
    return reports;
  }

  /** See {@linkcode Engine.load}: on every card. */
  async load(): Promise<void> {
    await this.#each((member) => member.load());
  }

  /** See {@linkcode Engine.unload}: from every card. */
  async unload(): Promise<void> {
    await this.#each((member) => member.unload());
  }

  /** See {@linkcode Engine.limitMemory}: of each card. */
  limitMemory(bytes: number): void {
    this.#bytes = bytes;
    for (const member of this.#members.values()) member.limitMemory(bytes);
  }

  /** See {@linkcode Engine.close}. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#options.cards.close();
    await this.#rest;
    await Promise.all([...this.#members.values()].map((member) => member.close()));
  }

  async #open(card: Card): Promise<void> {
    const { name, cards, on } = this.#options;
    try {
      const member = await this.#options.open(card);
      if (this.#isClosed) return await member.close();
      if (this.#bytes !== undefined) member.limitMemory(this.#bytes);
      this.#learnName(card, member.adapter);
      this.#members.set(card, member);
      card.models.set(name, member);
      if (on.length > 1) this.#note(`GPU ${card.id} (${card.name}) has ${name}`);
    } catch (error) {
      card.lastError = (error as Error).message;
      if (on.length > 1 && !this.#isClosed) {
        this.#note(`Cannot use GPU ${card.id} (${card.name}) for ${name}: ${card.lastError}`);
        if (card.models.size === 0) card.isLeftOut = true;
      }
      throw error;
    } finally {
      card.loading--;
      cards.changed();
    }
  }

  #learnName(card: Card, adapter: string | undefined): void {
    if (!adapter) return;
    const { name } = card.plan;
    if (name !== "" && name !== adapter) {
      this.#note(`GPU ${card.id} was to be ${name}, but the driver gave ${adapter}`);
    }
    card.name = adapter;
  }

  async #each(work: (member: PoolMember) => Promise<void>): Promise<void> {
    await Promise.all(this.#usable().map(([, member]) => work(member)));
  }

  #usable(): [Card, PoolMember][] {
    return [...this.#members].filter(([card]) => card.isUsable);
  }

  #first(): PoolMember {
    return this.#usable()[0]?.[1] ?? this.#members.values().next().value!;
  }

  #note(line: string): void {
    this.#options.onNote?.(line);
  }
}

/** What is told of a generation that may be made twice: frames count, and progress never falls. */
class WatchedControl {
  /** Whether a frame has left already. */
  hasGiven = false;
  readonly control: GenerationControl;
  #fraction = 0;
  #isAgain = false;

  constructor(given: GenerationControl) {
    const { onFrame, onProgress } = given;
    this.control = {
      ...given,
      ...(onFrame && {
        onFrame: (frame) => {
          this.hasGiven = true;
          return onFrame(frame);
        },
      }),
      ...(onProgress && {
        onProgress: (progress) => {
          this.#fraction = Math.max(this.#fraction, progress.fraction);
          onProgress(this.#isAgain ? { ...progress, fraction: this.#fraction } : progress);
        },
      }),
    };
  }

  again(): void {
    this.#isAgain = true;
  }
}

/** Errors that say something of a card, and not of a request. */
const GPU_ERRORS: ReadonlySet<string> = new Set([
  "DeviceLostError",
  "GpuValidationError",
  "OutOfMemoryError",
]);

function isRefusal({ name }: Error): boolean {
  return name === "RangeError" || name === "OutOfMemoryError";
}

/** Pixels times steps. */
function workOf(request: GenerateRequest, { defaults }: ModelInfo): number {
  const { width, height, numFrames = defaults.numFrames, numInferenceSteps } = request;
  return width * height * numFrames * Math.max(1, numInferenceSteps);
}
