import type { Tensor } from "../../graph/graph.ts";
import type { Activation } from "../activations.ts";
import { type Rotation, rowNorm } from "./row_norm.ts";

/** Optional parts of a root-mean-square normalisation. */
export interface RmsNormOptions {
  /** `rms`: added to the mean square; `l2`: smallest length that is divided by. */
  readonly eps: number;
  /** Learned factor, [C], or [P, C] for an `x` of [P, ..., C]; f32, f16 or bf16. */
  readonly weight?: Tensor | undefined;
  /** `rms` (default): x / sqrt(mean(x²) + eps). `l2`, as in Wan's VAE: x / max(‖x‖₂, eps) * sqrt(C). */
  readonly kind?: "rms" | "l2";
  /** Modulation: the result is multiplied by `1 + scale`. [C], [B, 1, C], [B, L, C] and the like. */
  readonly scale?: Tensor | undefined;
  /** Modulation: added after `scale`; shapes alike. */
  readonly shift?: Tensor | undefined;
  /** Applied after that. */
  readonly activation?: Activation;
  /** Gate whose tanh multiplies what comes out, as in Z-Image; shapes as `scale`. */
  readonly gate?: Tensor | undefined;
  /** Added then: the shape of `x`. */
  readonly residual?: Tensor | undefined;
  /** Rotary position embedding, last of all: `x` turns in every head as `rope` interleaved does. */
  readonly rotary?: Rotation;
  /** Name of the result, for messages. */
  readonly name?: string;
}

/**
 * Root-mean-square normalisation over the last axis, with modulation, activation, gate, residual and rotation fused in:
 * y = rotate(residual + tanh(gate) * act(n(x) * weight * (1 + scale) + shift)), n by `kind`.
 *
 * @param x [..., C]
 * @returns f32 tensor of the shape of `x`
 * @throws {RangeError} when weight, residual or tables do not fit, or a modulation or gate does not broadcast to `x`
 */
export function rmsNorm(x: Tensor, options: RmsNormOptions): Tensor {
  return rowNorm(x, { op: "rmsNorm", kind: "rms", ...options });
}
