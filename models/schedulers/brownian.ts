/**
 * Noise along a Brownian path over σ that a seed alone decides: that of torchsde's `BrownianTree`, which k-diffusion, ComfyUI and
 * AUTOMATIC1111 give to the SDE samplers. A node of the tree knows the path's increment over its interval, and a seed of its own
 * gives the increment over the left half. Points are rounded to a millionth.
 * Source: Li et al. 2020, "Scalable Gradients for Stochastic Differential Equations"; torchsde's `BrownianInterval`.
 */
import { TorchGenerator } from "./noise.ts";
import { spawnedSeed } from "./seed_sequence.ts";

/** Decimal places of a point. */
const PLACES = 6;

const POOL_SIZE = 24;

export class BrownianPath {
  readonly #seed: number | bigint;
  readonly #size: number;
  readonly #start: number;
  readonly #end: number;
  readonly #whole: Float32Array;
  /** Where the last increment ended, which is where the next one begins. */
  #last: { readonly point: number; readonly value: Float64Array } | undefined;

  /** `sigmas` are those of a run, descending to 0: the path spans those above 0. */
  constructor(seed: number | bigint, size: number, sigmas: ArrayLike<number>) {
    const positive = Array.from(sigmas).filter((sigma) => sigma > 0).map(Math.fround);
    this.#seed = seed;
    this.#size = size;
    this.#start = rounded(Math.min(...positive));
    this.#end = rounded(Math.max(...positive));
    const spread = Math.sqrt(Math.max(...positive) - Math.min(...positive));
    this.#whole = this.#draw([]).map((value) => value * spread);
  }

  /** Unit noise of the step from one level down to another. */
  noise(from: number, to: number): Float32Array {
    const [high, low] = [Math.fround(from), Math.fround(to)];
    const first = this.#last?.point === high ? this.#last.value : this.#at(rounded(high));
    const second = this.#at(rounded(low));
    this.#last = { point: low, value: second };
    const scale = Math.sqrt(high - low);
    return Float32Array.from(second, (value, i) => (value - first[i]!) / scale);
  }

  /** The path at a point, above its start. */
  #at(point: number): Float64Array {
    const value = new Float64Array(this.#size);
    const increment = this.#whole.slice();
    let [start, end] = [this.#start, this.#end];
    for (let depth = 0, key = 0; point > start && point < end; depth++) {
      const half = rounded((start + end) / 2);
      const isLeft = point < half;
      const share = (half - start) / (end - start);
      const deviation = Math.sqrt(share * (end - half));
      const noise = this.#draw([key, depth]);
      // A loop: this is most of the time of a step that draws.
      for (let i = 0; i < noise.length; i++) {
        const left = share * increment[i]! + deviation * noise[i]!;
        if (!isLeft) value[i]! += left;
        increment[i] = isLeft ? left : increment[i]! - left;
      }
      [start, end, key] = isLeft ? [start, half, 2 * key] : [half, end, 2 * key + 1];
    }
    if (point >= end) increment.forEach((part, i) => value[i]! += part);
    return value;
  }

  #draw(key: readonly number[]): Float32Array {
    return new TorchGenerator(spawnedSeed(this.#seed, key, POOL_SIZE)).randn(this.#size);
  }
}

function rounded(value: number): number {
  return Number(value.toFixed(PLACES));
}
