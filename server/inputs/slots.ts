/**
 * Doing so many things of a kind at once, and no more.
 *
 * @module
 */

/** Places for work; whoever finds none waits, in order. */
export class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  /** @param count how many at once */
  constructor(count: number) {
    this.#free = count;
  }

  /**
   * Works when there is a place.
   *
   * @param work what to do
   * @param signal gives up waiting
   * @returns what the work returns
   * @throws what the work throws, and the reason of the signal
   */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      this.#waiting.splice(this.#waiting.indexOf(resolve), 1);
      reject(signal.reason);
    };
    this.#waiting.push(resolve);
    signal.addEventListener("abort", leave, { once: true });
    try {
      await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }
}
