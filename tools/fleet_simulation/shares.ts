/** What clients got, beside what would have been fair, while jobs waited throughout. */

/** How long a stretch is in which what each client got is compared, in seconds. */
const STRETCH = 600;

/** Collects GPU time by client, stretch by stretch. */
export class Shares {
  /** GPU time that each client has asked for and not got. */
  readonly #open: Float64Array;
  readonly #got: Float64Array;
  #end = STRETCH;
  #isCrowded = true;
  #indices: number[] = [];

  constructor(clients: number) {
    this.#open = new Float64Array(clients);
    this.#got = new Float64Array(clients);
  }

  /** Mean of Jain's index over the crowded stretches; 1 where there was none. */
  get fairness(): number {
    const indices = this.#indices;
    return indices.length === 0 ? 1 : indices.reduce((sum, index) => sum + index) / indices.length;
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

  /** Ends the stretches before a time, in seconds. */
  until(now: number, isCrowded: boolean): void {
    while (now >= this.#end) {
      if (this.#isCrowded && isCrowded) this.#indices.push(this.#index());
      this.#got.fill(0);
      this.#isCrowded = true;
      this.#end += STRETCH;
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

/** Jain's index: 1 where all are alike and for none, 1 / n where one has everything. */
export function jain(shares: readonly number[]): number {
  let [sum, squares] = [0, 0];
  for (const share of shares) {
    sum += share;
    squares += share * share;
  }
  return squares === 0 ? 1 : sum * sum / (shares.length * squares);
}

/** Shares something so that nobody gets more than they want, and those who want more get the same. */
export function maxMinShares(wanted: readonly number[], total: number): number[] {
  const order = [...wanted.keys()].sort((a, b) => wanted[a]! - wanted[b]!);
  const shares = new Array<number>(wanted.length).fill(0);
  let left = total;
  for (const [place, index] of order.entries()) {
    shares[index] = Math.min(wanted[index]!, left / (order.length - place));
    left -= shares[index]!;
  }
  return shares;
}
