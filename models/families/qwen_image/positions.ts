/**
 * Positions of tokens: image, row, column. Rows and columns are counted from the middle of an image; the text goes on
 * where the largest image ends, the same on all axes. Beside layers the given image stands before all others.
 *
 * Source: diffusers `QwenEmbedRope` with `scale_rope`, and `QwenEmbedLayer3DRope`.
 */
import type { Graph, Rotation } from "../../../runtime/mod.ts";
import { rotaryConstants } from "../../blocks/embeddings.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import type { QwenImageTransformerConfig } from "./config.ts";

/** Base of the rotary frequencies, whatever the configuration says. */
const THETA = 10000;

/** Positions of the tokens of images, one after the other; of layers, the last is the given image. */
export function imagePositions(grids: readonly TokenGrid[], areLayers = false): number[][] {
  return grids.flatMap(({ rows, columns }, i) => {
    const image = areLayers && i === grids.length - 1 ? -1 : i;
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

export function textPositions(
  tokens: number,
  grids: readonly TokenGrid[],
  areLayers = false,
): number[][] {
  const sides = grids.flatMap(({ rows, columns }) => [rows, columns]);
  const ends = sides.map((side) => Math.floor(side / 2));
  const first = Math.max(...ends, ...areLayers ? [grids.length - 1] : []);
  return Array.from({ length: tokens }, (_, place) => new Array<number>(3).fill(first + place));
}

/** Rotary tables of these tokens, as constants of a graph. */
export function rotaryOf(
  graph: Graph,
  name: string,
  { axes_dims_rope }: Pick<QwenImageTransformerConfig, "axes_dims_rope">,
  tokens: readonly (readonly number[])[],
): Rotation {
  return rotaryConstants(graph, name, tokens, axes_dims_rope, THETA);
}
