/**
 * What FLUX.1 Fill sees beside the noise: the image without what is painted anew, and the mask.
 *
 * Source: diffusers `FluxFillPipeline`, `prepare_mask_latents`.
 */
import { concat, type Tensor } from "../../../runtime/mod.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { rearrange } from "../../rearrange.ts";

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
