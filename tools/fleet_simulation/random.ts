/** Random numbers that a seed repeats, and the distributions that the simulation draws from. */

/** A generator of random numbers: sfc32 of PractRand. */
export class Random {
  readonly #state = new Uint32Array(4);

  constructor(seed: number) {
    this.#state.set([seed, seed ^ 0x9e3779b9, 0x243f6a88, 1]);
    for (let round = 0; round < 16; round++) this.uniform();
  }

  /** A number from 0 to 1, without 1. */
  uniform(): number {
    const state = this.#state;
    const sum = (state[0]! + state[1]! + state[3]!) >>> 0;
    state[3] = state[3]! + 1;
    state[0] = state[1]! ^ (state[1]! >>> 9);
    state[1] = state[2]! + (state[2]! << 3);
    state[2] = ((state[2]! << 21) | (state[2]! >>> 11)) + sum;
    return sum / 2 ** 32;
  }

  /** A whole number from 0, below a limit. */
  below(limit: number): number {
    return Math.floor(this.uniform() * limit);
  }

  /** The time between events that come independently. */
  exponential(mean: number): number {
    return -Math.log(1 - this.uniform()) * mean;
  }

  /** A number of tries of which each is the last with a probability of 1 / mean. */
  geometric(mean: number): number {
    if (mean <= 1) return 1;
    return 1 + Math.floor(Math.log(1 - this.uniform()) / Math.log(1 - 1 / mean));
  }

  /** A time with a mean, and a long tail for larger spreads. */
  logNormal(mean: number, spread: number): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    const normal = radius * Math.cos(2 * Math.PI * this.uniform());
    return mean * Math.exp(spread * normal - spread * spread / 2);
  }
}

/** Draws of an index by its weight. */
export class Weighted {
  /** Sums of the weights up to each index. */
  readonly #sums: number[] = [];

  constructor(weights: readonly number[]) {
    let sum = 0;
    for (const weight of weights) this.#sums.push(sum += weight);
  }

  draw(random: Random): number {
    const drawn = random.uniform() * this.#sums.at(-1)!;
    let [from, to] = [0, this.#sums.length - 1];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.#sums[middle]! <= drawn) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
