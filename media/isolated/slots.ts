/**
 * How much may go on at once.
 *
 * @module
 */

/** Thrown when too many wait already. */
export class BusyError extends Error {
  /** Tells it from other errors in logs. */
  override readonly name = "BusyError";
}

/** Limits of {@link Slots}. */
interface SlotLimits {
  /** Most works at once. */
  readonly count: number;
  /** Largest sum of their weights; a work that is heavier by itself runs alone. */
  readonly weight?: number;
  /** Most works that wait. */
  readonly waiting?: number;
}

/** What is said of one work. */
interface SlotOptions {
  /** Share of {@link SlotLimits.weight} that the task takes; 0 when left out. */
  readonly weight?: number | undefined;
  /** Takes it out of the line. */
  readonly signal?: AbortSignal | undefined;
}

interface Waiting {
  readonly weight: number;
  readonly start: () => void;
}

/** Works that share what there is, in the order in which they came. */
export class Slots {
  readonly #limits: SlotLimits;
  readonly #line: Waiting[] = [];
  #count = 0;
  #weight = 0;

  /** @param limits what there is */
  constructor(limits: SlotLimits) {
    this.#limits = limits;
  }

  /**
   * Does a work when its turn has come.
   *
   * @param work to be done
   * @param options its weight, and what takes it out of the line
   * @returns what the work gives
   * @throws {BusyError} when too many wait
   * @throws the signal's reason, when it fires before the work has begun; what the work throws
   */
  async run<T>(work: () => Promise<T>, options: SlotOptions = {}): Promise<T> {
    const { weight = 0, signal } = options;
    await this.#enter(weight, signal);
    try {
      return await work();
    } finally {
      this.#count--;
      this.#weight -= weight;
      this.#startNext();
    }
  }

  async #enter(weight: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const { waiting = Infinity } = this.#limits;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const entry = { weight, start: resolve };
    this.#line.push(entry);
    this.#startNext();
    if (this.#line.length > waiting) {
      this.#line.splice(this.#line.indexOf(entry), 1);
      throw new BusyError(`${waiting} wait already`);
    }
    const leave = () => {
      const index = this.#line.indexOf(entry);
      if (index < 0) return;
      this.#line.splice(index, 1);
      reject(signal!.reason);
      // What was behind may be light enough.
      this.#startNext();
    };
    signal?.addEventListener("abort", leave);
    try {
      await promise;
    } finally {
      signal?.removeEventListener("abort", leave);
    }
  }

  #startNext(): void {
    const { count, weight = Infinity } = this.#limits;
    for (let next = this.#line[0]; next; next = this.#line[0]) {
      const isFull = this.#count >= count ||
        (this.#count > 0 && this.#weight + next.weight > weight);
      if (isFull) return;
      this.#line.shift();
      this.#count++;
      this.#weight += next.weight;
      next.start();
    }
  }
}
