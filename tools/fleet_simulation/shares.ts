/** What clients got, beside what would have been fair, while jobs waited throughout. */

import { jain, maxMinShares } from "./statistics.ts";

/** Collects GPU time by client, stretch by stretch. */
export class Shares {
  readonly #stretch: number;
  /** GPU time that each client has asked for and not got. */
  readonly #open: Float64Array;
  readonly #got: Float64Array;
  #end: number;
  #isCrowded = true;
  #indices: number[] = [];

  /**
   * @param stretch its length in seconds
   */
  constructor(clients: number, stretch: number) {
    this.#open = new Float64Array(clients);
    this.#got = new Float64Array(clients);
    this.#stretch = stretch;
    this.#end = stretch;
  }

  /** Mean of Jain's index over the crowded stretches; 1 where there was none. */
  get fairness(): number {
    const indices = this.#indices;
    return indices.length === 0 ? 1 : indices.reduce((sum, index) => sum + index) / indices.length;
  }

  /** For how long jobs waited throughout, in seconds. */
  get crowdedSeconds(): number {
    return this.#indices.length * this.#stretch;
  }

  /** A client asks for GPU time, in seconds. */
  wanted(client: number, seconds: number): void {
    this.#open[client]! += seconds;
  }

  /** A client gets GPU time, in seconds. */
  got(client: number, seconds: number): void {
    this.#open[client]! -= seconds;
    this.#got[client]! += seconds;
  }

  /**
   * Ends the stretches before a time.
   *
   * @param now seconds
   */
  until(now: number, isCrowded: boolean): void {
    while (now >= this.#end) {
      if (this.#isCrowded && isCrowded) this.#indices.push(this.#index());
      this.#got.fill(0);
      this.#isCrowded = true;
      this.#end += this.#stretch;
    }
    this.#isCrowded &&= isCrowded;
  }

  /** Jain's index of what each got by what was fair. */
  #index(): number {
    const clients = [...this.#got.keys()].filter((client) =>
      this.#got[client]! + this.#open[client]! > 0
    );
    const wanted = clients.map((client) => this.#got[client]! + this.#open[client]!);
    const got = clients.map((client) => this.#got[client]!);
    const fair = maxMinShares(wanted, got.reduce((sum, seconds) => sum + seconds, 0));
    return jain(got.map((seconds, index) => seconds / fair[index]!));
  }
}
