import type { Tensor } from "../../graph/graph.ts";
import { rowNorm } from "./row_norm.ts";

/** Optional parts of a layer normalisation. */
export interface LayerNormOptions {
  /** Added to the variance. */
  readonly eps: number;
  /** Learned factor, [C]; f32, f16 or bf16. */
  readonly weight?: Tensor | undefined;
  /** Learned offset, [C]. */
  readonly bias?: Tensor | undefined;
  /** Modulation: the result is multiplied by `1 + scale`. [C], [B, 1, C], [B, L, C] and the like. */
  readonly scale?: Tensor | undefined;
  /** Modulation: added last; shapes as for `scale`. */
  readonly shift?: Tensor | undefined;
  /** Name of the result, for messages. */
  readonly name?: string;
}

/**
 * Layer normalisation over the last axis, with an adaptive modulation fused in:
 * y = ((x - mean) / sqrt(var + eps) * weight + bias) * (1 + scale) + shift, var with divisor C.
 *
 * @param x [..., C]
 * @returns f32 tensor of the shape of `x`
 * @throws {RangeError} when a weight is not [C] or a modulation does not broadcast to `x`
 */
export function layerNorm(x: Tensor, options: LayerNormOptions): Tensor {
  return rowNorm(x, { op: "layerNorm", kind: "layer", ...options });
}
