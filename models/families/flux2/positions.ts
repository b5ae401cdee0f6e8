/**
 * Positions of tokens: image, row, column, place in the text. The text and the result are at image 0, input images at
 * 10, 20, …
 *
 * Source: diffusers `Flux2KleinPipeline`, `_prepare_text_ids`, `_prepare_latent_ids` and `_prepare_image_ids`.
 */
import type { Graph, Rotation } from "../../../runtime/mod.ts";
import { rotaryTables } from "../../embeddings.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import type { Flux2TransformerConfig } from "./config.ts";

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

/** Rotary tables of these tokens, as constants of a graph. */
export function rotaryConstants(
  graph: Graph,
  { axes_dims_rope, attention_head_dim, rope_theta }: Flux2TransformerConfig,
  tokens: readonly (readonly number[])[],
): Rotation {
  const { cos, sin } = rotaryTables(tokens, axes_dims_rope, rope_theta);
  const shape = [tokens.length, attention_head_dim / 2];
  return {
    cos: graph.constant("rope_cos", shape, "f32", cos),
    sin: graph.constant("rope_sin", shape, "f32", sin),
  };
}
