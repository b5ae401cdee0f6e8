import type { Tensor } from "../../graph.ts";
import { roundUp } from "../../shape.ts";

/**
 * Low-rank adapters of a linear layer: scales ⊙ (x · downᵀ) · upᵀ is added to x · wᵀ. Several LoRAs are one after
 * the other along R, each with its own scale repeated: see {@linkcode packLowRank}.
 */
export interface LowRank {
  /** [R, K], any float type or quantised. */
  readonly down: Tensor;
  /** [N, R], any float type. */
  readonly up: Tensor;
  /** f32 [R]; may be written between runs, 0 turns a LoRA off. */
  readonly scales: Tensor;
}

/** One LoRA of a linear layer, as numbers: scale · up · down is added to rows of its weight. */
export interface LowRankAdapter {
  /** Rows of `down`. */
  readonly rank: number;
  /** [rank, K] */
  readonly down: ArrayLike<number>;
  /** [count, rank], of which `count` is N unless `columns` says less. */
  readonly up: ArrayLike<number>;
  /** The strength asked for times what the file says, alpha / rank as a rule. */
  readonly scale: number;
  /** First and number of the layer's outputs that it adds to, where it is one of several layers that were joined. */
  readonly columns?: readonly [start: number, count: number];
}

/** Elements of the tensors of a {@linkcode LowRank}, row by row. */
export interface PackedLowRank {
  /** R: the sum of the ranks, rounded up to a multiple of 4 with rows and columns of zeros. */
  readonly rank: number;
  /** [R, K] */
  readonly down: Float32Array<ArrayBuffer>;
  /** [N, R] */
  readonly up: Float32Array<ArrayBuffer>;
  /** [R] */
  readonly scales: Float32Array<ArrayBuffer>;
}

/**
 * Puts LoRAs of one layer side by side. Outputs that a LoRA leaves alone get rows of zeros in `up`, so that
 * nothing is added to them.
 *
 * @param n outputs of the layer
 * @param k inputs of the layer
 * @throws {RangeError} when a LoRA's sizes do not fit the layer
 */
export function packLowRank(
  n: number,
  k: number,
  loras: readonly LowRankAdapter[],
): PackedLowRank {
  const rank = roundUp(loras.reduce((sum, { rank }) => sum + rank, 0), 4);
  const down = new Float32Array(rank * k);
  const up = new Float32Array(n * rank);
  const scales = new Float32Array(rank);
  let first = 0;
  for (const [i, lora] of loras.entries()) {
    const [start, count] = lora.columns ?? [0, n];
    if (
      start < 0 || start + count > n || lora.down.length !== lora.rank * k ||
      lora.up.length !== count * lora.rank
    ) {
      throw new RangeError(
        `Cannot pack LoRA ${i} of rank ${lora.rank} for outputs ${start} to ${
          start + count
        } of a layer [${n}, ${k}]: down has ${lora.down.length} elements, up ${lora.up.length}`,
      );
    }
    down.set(lora.down, first * k);
    for (let row = 0; row < count; row++) {
      for (let j = 0; j < lora.rank; j++) {
        up[(start + row) * rank + first + j] = lora.up[row * lora.rank + j]!;
      }
    }
    scales.fill(lora.scale, first, first + lora.rank);
    first += lora.rank;
  }
  return { rank, down, up, scales };
}
