import type { Tensor } from "../../graph/graph.ts";

/**
 * Low-rank adapters of a linear layer: scales ⊙ (x · downᵀ) · upᵀ is added to x · wᵀ. Several LoRAs are one after
 * the other along R, each with its own scale repeated.
 */
export interface LowRank {
  /** [R, K], any float type or quantised. */
  readonly down: Tensor;
  /** [N, R], any float type. */
  readonly up: Tensor;
  /** f32 [R]; may be written between runs, 0 turns a LoRA off. */
  readonly scales: Tensor;
}
