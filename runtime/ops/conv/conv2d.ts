import type { Tensor } from "../../graph/graph.ts";
import type { Activation } from "../activations.ts";
import type { GroupNormOptions } from "../norm/group_norm.ts";
import { convolution } from "./convolution.ts";

/** Optional parts of an image convolution. */
export interface Conv2dOptions {
  /** [Co]; f32, f16 or bf16. */
  readonly bias?: Tensor | undefined;
  /** Rows, columns; 1, 1 by default. */
  readonly stride?: readonly [number, number];
  /** Zeros at the top, bottom, left, right; none by default. */
  readonly padding?: readonly [number, number, number, number];
  /** Applied after the bias, before the residual. */
  readonly activation?: Activation;
  /** Added last; shape of the result. */
  readonly residual?: Tensor | undefined;
  /** The input is normalised before; where it is padded, it stays zero. */
  readonly norm?: GroupNormOptions | undefined;
  /** 2: the input is seen at twice its height and width, every pixel repeated; padding is around that. */
  readonly upsample?: 1 | 2;
  /** Name of the result, for messages. */
  readonly name?: string;
}

/**
 * Convolution of channels-last images: y = act(norm(x) ∗ w + bias) + residual.
 *
 * @param x [B, H, W, Ci] f32
 * @param w [Co, kh, kw, Ci]; f32, f16 or bf16
 * @returns [B, Ho, Wo, Co] f32 with Ho = floor((H * upsample + top + bottom - kh) / sh) + 1, Wo alike
 * @throws {RangeError} when sizes do not fit together
 */
export function conv2d(x: Tensor, w: Tensor, options: Conv2dOptions = {}): Tensor {
  const { stride = [1, 1] } = options;
  if (x.rank !== 4 || w.rank !== 4) {
    throw new RangeError(
      `Cannot apply conv2d to ${x} with weight ${w}: [B, H, W, Ci] and [Co, kh, kw, Ci] are needed`,
    );
  }
  const y = convolution({
    op: "conv2d",
    x: asVideo(x),
    weight: asVideo(w),
    bias: options.bias,
    residual: options.residual && asVideo(options.residual),
    norm: options.norm,
    stride: [1, ...stride],
    padding: options.padding ?? [0, 0, 0, 0],
    upsample: options.upsample ?? 1,
    activation: options.activation ?? "none",
    name: options.name ?? "conv2d",
  });
  return y.reshape(y.dim(0), y.dim(2), y.dim(3), y.dim(4));
}

/** A tensor with a dimension of one frame after the first. */
function asVideo(tensor: Tensor): Tensor {
  const [first, ...rest] = tensor.shape;
  return tensor.reshape(first!, 1, ...rest);
}
