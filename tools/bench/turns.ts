/** Timing by turns: whoever is compared runs for a while, then the next one, and each one's best turn counts. */

/** What can be run again and again. */
export interface Repeatable {
  /** How many calls one run makes. */
  readonly copies: number;
  /** Queues that many runs and waits until they are done; 0 waits only. */
  run(times: number): Promise<void>;
}

/** A clock in milliseconds. */
type Clock = () => number;

/** The turns of one of them. */
export class Turns {
  readonly #work: Repeatable;
  readonly #now: Clock;
  #idle = 0;
  #runs = 1;
  /** Best time of one call so far, in milliseconds. */
  best = Infinity;

  constructor(work: Repeatable, now: Clock = () => performance.now()) {
    this.#work = work;
    this.#now = now;
  }

  /**
   * Finds how many runs fill a turn, by a first one; what is compiled at the first run must be compiled before.
   *
   * @param turnMs least time of one turn, in milliseconds
   */
  async calibrate(turnMs: number): Promise<void> {
    this.#idle = Math.min(await this.#time(0), await this.#time(0), await this.#time(0));
    const once = Math.max(0.1, await this.#time(1) - this.#idle);
    this.#runs = Math.ceil(turnMs / once);
    this.best = once / this.#work.copies;
  }

  /** Takes a turn; the time of an empty wait is taken off. */
  async take(): Promise<void> {
    const time = await this.#time(this.#runs);
    // A wait that was disturbed when it was measured must not make a turn look fast.
    const busy = Math.max(time / 2, time - this.#idle);
    this.best = Math.min(this.best, busy / (this.#runs * this.#work.copies));
  }

  async #time(times: number): Promise<number> {
    const start = this.#now();
    await this.#work.run(times);
    return this.#now() - start;
  }
}
