/** How much work may go between two waits, learnt from how long the work before took. */

/** Work between two waits, in seconds: progress and cancel come as often, and a desktop's watchdog waits for 2 s. */
const GROUP_SECONDS = 0.09;
/** How many times more work than the last measured group one may hold: its kernels may be slower. */
const MAX_GROWTH = 8;
/** Measured time after which an older measurement counts for little, in seconds. */
const MEMORY_SECONDS = 0.5;

interface PacerOptions {
  readonly groupSeconds?: number | undefined;
  /** A clock, in milliseconds. */
  readonly now?: () => number;
}

/** Decides how much work goes between two waits. Work is counted in budgets of a submit. */
export class Pacer {
  /** Milliseconds. */
  readonly now: () => number;
  readonly #groupSeconds: number;
  #secondsPerBudget: number | undefined;
  #last = 0;

  /** Nothing is measured yet. */
  constructor(
    { groupSeconds = GROUP_SECONDS, now = () => performance.now() }: PacerOptions = {},
  ) {
    this.#groupSeconds = groupSeconds;
    this.now = now;
  }

  /** How many budgets of work may share a wait; 1 until something is measured. */
  get room(): number {
    if (this.#secondsPerBudget === undefined) return 1;
    const wanted = this.#groupSeconds / this.#secondsPerBudget;
    return Math.min(wanted, Math.max(1, this.#last * MAX_GROWTH));
  }

  /** Learns how many seconds so many budgets of work took. Longer groups count for more. */
  record(budgets: number, seconds: number): void {
    if (!(budgets > 0 && seconds > 0)) return;
    const rate = seconds / budgets;
    const weight = seconds / (seconds + MEMORY_SECONDS);
    this.#secondsPerBudget = this.#secondsPerBudget === undefined
      ? rate
      : this.#secondsPerBudget + (rate - this.#secondsPerBudget) * weight;
    this.#last = budgets;
  }
}
