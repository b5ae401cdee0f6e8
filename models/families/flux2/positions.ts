/**
 * Positions of tokens: image, row, column, place in the text. The text and the result are at image 0, input images at
 * 10, 20, …
 *
 * Source: diffusers `Flux2KleinPipeline`, `_prepare_text_ids`, `_prepare_latent_ids` and `_prepare_image_ids`.
 */
import type { TokenGrid } from "../../pipeline/latents.ts";

/** Distance between input images along the first axis. */
const IMAGE_STEP = 10;

/**
 * Positions of all tokens in the order in which the transformer takes them: text, result, input images.
 *
 * @returns per token its place on the four axes
 */
export function positions(
  textTokens: number,
  result: TokenGrid,
  references: readonly TokenGrid[],
): number[][] {
  const all = Array.from({ length: textTokens }, (_, place) => [0, 0, 0, place]);
  [result, ...references].forEach(({ rows, columns }, image) => {
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++) all.push([IMAGE_STEP * image, y, x, 0]);
    }
  });
  return all;
}
