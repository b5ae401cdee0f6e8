/** Positions of tokens: image, row, column. The text is at 0, the result in image 0, an input image in image 1. */
import type { TokenGrid } from "../../pipeline/latents.ts";

/**
 * Positions of all tokens in the order in which the transformer takes them: text, result, input image.
 *
 * Source: diffusers `FluxPipeline` and `FluxKontextPipeline`, `_prepare_latent_image_ids`.
 */
export function positions(textTokens: number, grids: readonly TokenGrid[]): number[][] {
  const all = Array.from({ length: textTokens }, () => [0, 0, 0]);
  grids.forEach(({ rows, columns }, image) => {
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++) all.push([image, y, x]);
    }
  });
  return all;
}
