/** Patches, their order (row, column, channel), in which they stay from the noise to the last step, and rotary positions. */
import {
  concat,
  type Graph,
  type Shape,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { type RotaryTables, rotaryTables } from "../../blocks/embeddings.ts";
import { patchEmbeddingLayer } from "../../blocks/layers.ts";
import { rearrange } from "../../rearrange.ts";
import type { WanTransformerConfig } from "./config.ts";

export interface TokenGrid {
  /** Latent frames. */
  readonly frames: number;
  readonly height: number;
  readonly width: number;
}

/** The grid of latents, [..., frames, height, width]. */
export function tokenGrid(config: WanTransformerConfig, latents: Shape): TokenGrid {
  const [, rows, columns] = config.patch_size;
  const [frames, height, width] = latents.slice(-3) as [number, number, number];
  if (height % rows !== 0 || width % columns !== 0) {
    throw new RangeError(
      `Cannot cut latents of ${height}x${width} into patches of ${rows}x${columns}: the sides are no multiples`,
    );
  }
  return { frames, height: height / rows, width: width / columns };
}

export function tokenCount({ frames, height, width }: TokenGrid): number {
  return frames * height * width;
}

/** Latents that a token holds. */
export function patchFeatures(
  { patch_size: [frames, rows, columns] }: WanTransformerConfig,
  channels: number,
): number {
  return frames * rows * columns * channels;
}

/** Latents [batch, channels, frames, height, width] as tokens [batch, tokens, features]. */
export function patchify(config: WanTransformerConfig, latents: Tensor): Tensor {
  const [, i, j] = config.patch_size;
  return rearrange(latents, "b c f (y i) (x j) -> b (f y x) (i j c)", { i, j });
}

/** A clip's latents, [frames, height, width, channels], as the tokens of one sample. */
export function patchifyClip(config: WanTransformerConfig, clip: Tensor): Tensor {
  return patchify(config, rearrange(clip, "f y x c -> 1 c f y x"));
}

/** Tokens [batch, tokens, features] as latents, channels last: [batch, frames, height, width, channels]. */
export function unpatchify(config: WanTransformerConfig, tokens: Tensor, grid: TokenGrid): Tensor {
  const [, i, j] = config.patch_size;
  const sizes = { f: grid.frames, y: grid.height, i, j };
  return rearrange(tokens, "b (f y x) (i j c) -> b f (y i) (x j) c", sizes);
}

export function withFirstFrames(tokens: Tensor, first: Tensor | undefined): Tensor {
  if (!first) return tokens;
  const [given, all] = [first.dim(1), tokens.dim(1)];
  return concat([first, ...given < all ? [slice(tokens, 1, given, all)] : []], 1);
}

/** The first layer, [batch, tokens, dim]. */
export function patchEmbedding(
  config: WanTransformerConfig,
  weights: WeightScope,
  tokens: Tensor,
  dim: number,
  name: "patch_embedding" | "vace_patch_embedding" = "patch_embedding",
): Tensor {
  const { patch_size: patch } = config;
  const channels = tokens.dim(-1) / patchFeatures(config, 1);
  return patchEmbeddingLayer(weights, name, tokens, dim, { channels, patch });
}

/** The pair of the frames' axis whose turns repeat first in long videos, and how much of a turn a whole video takes. */
const REPEATING_PAIR = 5;
const LONGEST_TURN = 0.9;

export interface GridOrigin {
  readonly frame: number;
  readonly row: number;
  readonly column: number;
  readonly stride?: number;
}

export const ORIGIN: GridOrigin = { frame: 0, row: 0, column: 0 };

/**
 * Rotary tables of the token grid; frames take the pairs that height and width leave.
 * Source of `riflex`: Zhao et al. 2025, "RIFLEx: A Free Lunch for Length Extrapolation in Video Diffusion Transformers",
 * with its authors' k of 6 for Wan.
 */
export function rotaryConstants(
  graph: Graph,
  config: WanTransformerConfig,
  grid: TokenGrid,
  { riflex = false, origin }: {
    readonly riflex?: boolean | undefined;
    readonly origin?: GridOrigin | undefined;
  } = {},
): { cos: Tensor; sin: Tensor } {
  const { frames, height, width } = grid;
  const longest = Math.max(frames, height, width);
  if (longest > config.rope_max_seq_len) {
    throw new RangeError(
      `Cannot place ${frames}x${height}x${width} tokens: the model knows ${config.rope_max_seq_len} positions per axis. Ask for a smaller size or fewer frames`,
    );
  }
  const side = 2 * Math.floor(config.attention_head_dim / 6);
  const axisDims = [config.attention_head_dim - 2 * side, side, side];
  const slower = riflex
    ? { axis: 0, pair: REPEATING_PAIR, frequency: LONGEST_TURN * 2 * Math.PI / frames }
    : undefined;
  let tables: RotaryTables | undefined;
  // Millions of tokens take seconds, and plans do without.
  const values = (name: keyof RotaryTables) => () =>
    (tables ??= rotaryTables(gridPositions(grid, origin), axisDims, 10000, slower))[name];
  const shape = [frames * height * width, config.attention_head_dim / 2];
  return {
    cos: graph.constant("rope_cos", shape, "f32", values("cos")),
    sin: graph.constant("rope_sin", shape, "f32", values("sin")),
  };
}

function gridPositions(
  { frames, height, width }: TokenGrid,
  { frame, row, column, stride = 1 }: GridOrigin = ORIGIN,
): number[][] {
  const positions: number[][] = [];
  for (let t = 0; t < frames; t++) {
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) positions.push([frame + t * stride, row + y, column + x]);
    }
  }
  return positions;
}
