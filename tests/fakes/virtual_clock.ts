/** A clock that stands still until nothing else is left to do, and then leaps to the next event. */

interface Sleeper {
  readonly at: number;
  readonly wake: () => void;
}

/** A clock that leaps from event to event. */
export class VirtualClock {
  /** Milliseconds since it was made. */
  now = 0;
  readonly #sleepers: Sleeper[] = [];

  /** Resolves so many milliseconds later; rejects when the signal fires before. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const sleeper = { at: this.now + ms, wake: resolve };
      this.#sleepers.push(sleeper);
      signal?.addEventListener("abort", () => {
        const index = this.#sleepers.indexOf(sleeper);
        if (index >= 0) this.#sleepers.splice(index, 1);
        reject(signal.reason);
      }, { once: true });
    });
  }

  /** Lets time pass until something has ended; gives what it gave. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let isOver = false;
    const over = () => void (isOver = true);
    promise.then(over, over);
    for (;;) {
      await settle();
      if (isOver) return await promise;
      const next = this.#sleepers.reduce<Sleeper | undefined>(
        (one, other) => (one && one.at <= other.at ? one : other),
        undefined,
      );
      // What waits for a real timer of the code under test.
      if (!next) continue;
      this.#sleepers.splice(this.#sleepers.indexOf(next), 1);
      this.now = Math.max(this.now, next.at);
      next.wake();
    }
  }
}

/** Waits until whatever can go on has gone on. */
async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setTimeout(resolve));
}
