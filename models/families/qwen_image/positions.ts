/**
 * Positions of tokens: image, row, column. Rows and columns are counted from the middle of an image; the text goes on
 * where the largest image ends, the same on all axes.
 *
 * Source: diffusers `QwenEmbedRope` with `scale_rope`.
 */
import type { Graph, Rotation } from "../../../runtime/mod.ts";
import { rotaryConstants } from "../../embeddings.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import type { QwenImageTransformerConfig } from "./config.ts";

/** Base of the rotary frequencies, whatever the configuration says. */
const THETA = 10000;

/** Positions of the tokens of images, one after the other. */
export function imagePositions(grids: readonly TokenGrid[]): number[][] {
  return grids.flatMap(({ rows, columns }, image) => {
    const [top, left] = [rows, columns].map((side) => Math.floor(side / 2) - side) as [
      number,
      number,
    ];
    return Array.from(
      { length: rows * columns },
      (_, i) => [image, top + Math.floor(i / columns), left + i % columns],
    );
  });
}

/** Positions of a text beside these images. */
export function textPositions(tokens: number, grids: readonly TokenGrid[]): number[][] {
  const sides = grids.flatMap(({ rows, columns }) => [rows, columns]);
  const first = Math.max(...sides.map((side) => Math.floor(side / 2)));
  return Array.from({ length: tokens }, (_, place) => new Array<number>(3).fill(first + place));
}

/** Rotary tables of these tokens, as constants of a graph. */
export function rotaryOf(
  graph: Graph,
  name: string,
  { axes_dims_rope }: QwenImageTransformerConfig,
  tokens: readonly (readonly number[])[],
): Rotation {
  return rotaryConstants(graph, name, tokens, axes_dims_rope, THETA);
}
