/** Numbers that say much of many: percentiles and fairness. */

/** How much longer the times of one bucket are than those of the one before. */
const STEP = 1.02;
/** The longest time of the first bucket, in seconds. */
const SHORTEST = 0.01;

/** Times, counted in buckets of two per cent. */
export class Times {
  readonly #buckets: number[] = [];
  #count = 0;
  #sum = 0;
  #longest = 0;

  /** How many there are. */
  get count(): number {
    return this.#count;
  }

  /** Mean of the values in seconds; 0 where there are none. */
  get mean(): number {
    return this.#count > 0 ? this.#sum / this.#count : 0;
  }

  /** The longest, in seconds. */
  get longest(): number {
    return this.#longest;
  }

  /** Counts one, in seconds. */
  add(seconds: number): void {
    const bucket = seconds <= SHORTEST
      ? 0
      : Math.ceil(Math.log(seconds / SHORTEST) / Math.log(STEP));
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1;
    this.#count++;
    this.#sum += seconds;
    this.#longest = Math.max(this.#longest, seconds);
  }

  /**
   * @param share of the times, 0 to 1
   * @returns what that share does not exceed, in seconds, to two per cent; 0 where there are none
   */
  percentile(share: number): number {
    let left = share * this.#count;
    for (const [bucket, count] of this.#buckets.entries()) {
      left -= count ?? 0;
      if (count > 0 && left <= 0) return bucket === 0 ? 0 : SHORTEST * STEP ** bucket;
    }
    return 0;
  }
}

/**
 * Jain's index: 1 where all are alike, 1 / n where one has everything.
 *
 * @returns the index; 1 for none
 */
export function jain(shares: readonly number[]): number {
  let [sum, squares] = [0, 0];
  for (const share of shares) {
    sum += share;
    squares += share * share;
  }
  return squares === 0 ? 1 : sum * sum / (shares.length * squares);
}

/**
 * Shares something so that nobody gets more than they want, and those who want more get the same.
 */
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
