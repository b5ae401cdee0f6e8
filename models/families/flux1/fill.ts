/**
 * What FLUX.1 Fill sees beside the noise: the image without what is painted anew, and the mask.
 *
 * Source: diffusers `FluxFillPipeline`, `prepare_mask_latents`.
 */
import { concat, type Tensor } from "../../../runtime/mod.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { toSignedRange } from "../../pipeline/pixels.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { rearrange } from "../../rearrange.ts";

/** A mask is binary for the model: bytes from this one on are painted. */
const PAINTED = 128;

/** Image and mask of a request as Fill takes them. */
export interface FillInputs {
  /** Pixels in [-1, 1]. */
  readonly whole: Float32Array<ArrayBuffer>;
  /** The same; those that are painted are 0. */
  readonly pixels: Float32Array<ArrayBuffer>;
  /** 1 where it is painted, [height · width]; everywhere without a mask. */
  readonly mask: Float32Array<ArrayBuffer>;
}

/** Cuts what is painted out of the first image. */
export function fillInputs({ images, mask, width, height }: PipelineRequest): FillInputs {
  const own = mask?.[0];
  const painted = Float32Array.from(
    { length: width * height },
    (_, i) => Number(!own || own[i]! >= PAINTED),
  );
  const whole = toSignedRange(images![0]!.data);
  const pixels = whole.map((value, i) => (painted[Math.floor(i / 3)] === 1 ? 0 : value));
  return { whole, pixels, mask: painted };
}

/**
 * What stands beside each token of the sample.
 *
 * @param image packed latents of the image without what is painted, [1, tokens, features]
 * @param mask [height, width] of the pixels
 * @param scale pixels along a side of a latent
 * @returns [1, tokens, features + pixels of a token]
 */
export function fillConditions(image: Tensor, mask: Tensor, scale: number): Tensor {
  const sides = { i: PACKED_SIDE, j: PACKED_SIDE, a: scale, b: scale };
  return concat([image, rearrange(mask, "(y i a) (x j b) -> 1 (y x) (a b i j)", sides)], -1);
}
