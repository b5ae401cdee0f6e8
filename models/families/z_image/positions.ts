/**
 * Tokens of an image lie at (place in the text, row, column), behind the text.
 * Source: diffusers `ZImageTransformer2DModel`, `_pad_with_ids` and `patchify_and_embed`.
 */
import type { Graph, Rotation, Tensor } from "../../../runtime/mod.ts";
import { rotaryConstantsWithin } from "../../blocks/embeddings.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { PATCH_SIDE, type ZImageTransformerConfig } from "./config.ts";
import { rearrange } from "../../rearrange.ts";

/** Both texts and images are filled up to a multiple of this many tokens, with learned ones. */
const SEQUENCE_MULTIPLE = 32;

export function paddedCount(tokens: number): number {
  return Math.ceil(tokens / SEQUENCE_MULTIPLE) * SEQUENCE_MULTIPLE;
}

export function textPositions(tokens: number): number[][] {
  return Array.from({ length: tokens }, (_, place) => [place + 1, 0, 0]);
}

/** Positions of an image behind a padded text; the tokens that fill it up all lie at the beginning. */
export function imagePositions(grid: TokenGrid, textTokens: number): number[][] {
  const count = tokenCount(grid);
  return Array.from(
    { length: paddedCount(count) },
    (_, i) =>
      i < count
        ? [textTokens + 1, Math.floor(i / grid.columns), i % grid.columns]
        : new Array<number>(3).fill(0),
  );
}

export function positionTables(
  graph: Graph,
  name: string,
  { axes_dims, axes_lens, rope_theta }: ZImageTransformerConfig,
  tokens: readonly (readonly number[])[],
): Rotation {
  return rotaryConstantsWithin(axes_lens, graph, name, tokens, axes_dims, rope_theta);
}

/** Patches, [1, patches, 4·channels], of latents, [1, height, width, channels]; each holds (row, column, channel). */
export function patchesOf(latents: Tensor): Tensor {
  const sides = { i: PATCH_SIDE, j: PATCH_SIDE };
  return rearrange(latents, "1 (y i) (x j) c -> 1 (y x) (i j c)", sides);
}
