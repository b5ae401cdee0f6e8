/** Latents as the transformer takes them: in patches. */
import type { Tensor } from "../../../runtime/mod.ts";
import { rearrange } from "../../rearrange.ts";
import { PATCH_SIDE } from "./config.ts";

/**
 * Patches of an image; each holds its latents in the order (channel, row, column).
 *
 * @param latents [1, height, width, channels], even sides
 * @returns [1, patches, 4·channels]
 */
export function patchesOf(latents: Tensor): Tensor {
  const sides = { i: PATCH_SIDE, j: PATCH_SIDE };
  return rearrange(latents, "1 (y i) (x j) c -> 1 (y x) (c i j)", sides);
}
