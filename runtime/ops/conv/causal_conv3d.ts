import type { Tensor } from "../../graph/graph.ts";
import type { Activation } from "../activations.ts";
import { convolution } from "./convolution.ts";

/** Optional parts of a video convolution. */
export interface CausalConv3dOptions {
  /** [Co]; f32, f16 or bf16. */
  readonly bias?: Tensor | undefined;
  /** Frames, rows, columns; 1, 1, 1 by default. */
  readonly stride?: readonly [number, number, number];
  /** Zeros at the top, bottom, left, right of every frame; none by default. */
  readonly padding?: readonly [number, number, number, number];
  /** [B, Tc, H, W, Ci] f32 or f16, Tc < kt: the frames right before `x`. */
  readonly cache?: Tensor | undefined;
  /** Frames of zeros before cache and `x`; kt - 1 - Tc by default. They cost nothing: their taps are skipped. */
  readonly frontPadding?: number;
  /** Applied after the bias, before the residual. */
  readonly activation?: Activation;
  /** Added last; shape of the result. */
  readonly residual?: Tensor | undefined;
  /** Name of the result, for messages. */
  readonly name?: string;
}

/**
 * Convolution of channels-last videos in which no output frame sees a later input frame:
 * y = act([zeros; cache; x] ∗ w + bias) + residual.
 *
 * @param x [B, T, H, W, Ci] f32
 * @param w [Co, kt, kh, kw, Ci]; f32, f16 or bf16
 * @returns [B, To, Ho, Wo, Co] f32 with To = floor((frontPadding + Tc + T - kt) / st) + 1,
 * Ho = floor((H + top + bottom - kh) / sh) + 1, Wo alike
 * @throws {RangeError} when sizes do not fit together
 */
export function causalConv3d(x: Tensor, w: Tensor, options: CausalConv3dOptions = {}): Tensor {
  if (x.rank !== 5 || w.rank !== 5) {
    throw new RangeError(
      `Cannot apply causalConv3d to ${x} with weight ${w}: [B, T, H, W, Ci] and [Co, kt, kh, kw, Ci] are needed`,
    );
  }
  return convolution({
    op: "causalConv3d",
    x,
    weight: w,
    bias: options.bias,
    cache: options.cache,
    residual: options.residual,
    stride: options.stride ?? [1, 1, 1],
    padding: options.padding ?? [0, 0, 0, 0],
    frontPadding: options.frontPadding,
    upsample: 1,
    activation: options.activation ?? "none",
    name: options.name ?? "causalConv3d",
  });
}
