/** Between latents and tokens: patches, their order, and their rotary positions. */
import {
  type Graph,
  linear,
  permute,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { rotaryTables } from "../../embeddings.ts";
import type { WanTransformerConfig } from "./config.ts";

/** Sizes of the token grid: of the latents, divided by those of a patch. */
export interface TokenGrid {
  /** Latent frames. */
  readonly frames: number;
  /** Rows of tokens. */
  readonly height: number;
  /** Columns of tokens. */
  readonly width: number;
}

/** Splits the latents into patches, a token each: features in the order (channel, row, column). */
export function patchEmbedding(
  config: WanTransformerConfig,
  weights: WeightScope,
  latents: Tensor,
  dim: number,
): { tokens: Tensor; grid: TokenGrid } {
  const [, rows, columns] = config.patch_size;
  const [batch, channels, frames, height, width] = latents.shape as [
    number,
    number,
    number,
    number,
    number,
  ];
  if (height % rows !== 0 || width % columns !== 0) {
    throw new RangeError(
      `Cannot cut ${latents} into patches of ${rows}x${columns}: the sides are no multiples`,
    );
  }
  const grid = { frames, height: height / rows, width: width / columns };
  const patches = permute(
    latents.reshape(batch, channels, frames * grid.height, rows, grid.width, columns),
    [0, 2, 4, 1, 3, 5],
  ).reshape(batch, frames * grid.height * grid.width, channels * rows * columns);
  const weight = weights.tensor(latents.graph, "patch_embedding.weight", [
    dim,
    channels,
    1,
    rows,
    columns,
  ]);
  const bias = weights.tensor(latents.graph, "patch_embedding.bias", [dim]);
  const tokens = linear(patches, weight.reshape(dim, channels * rows * columns), { bias });
  return { tokens, grid };
}

/** The inverse for the output, whose features have the order (row, column, channel). */
export function unpatchify(config: WanTransformerConfig, tokens: Tensor, grid: TokenGrid): Tensor {
  const [, rows, columns] = config.patch_size;
  const { frames, height, width } = grid;
  const batch = tokens.dim(0);
  return permute(
    tokens.reshape(batch, frames * height, width, rows, columns, config.out_channels),
    [0, 5, 1, 3, 2, 4],
  ).reshape(batch, config.out_channels, frames, height * rows, width * columns);
}

/** Latent positions of a patch. */
export function patchVolume({ patch_size: [frames, rows, columns] }: WanTransformerConfig): number {
  return frames * rows * columns;
}

/** Rotary tables of the token grid; frames take the pairs that height and width leave. */
export function rotaryConstants(
  graph: Graph,
  config: WanTransformerConfig,
  grid: TokenGrid,
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
  const positions: number[][] = [];
  for (let t = 0; t < frames; t++) {
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) positions.push([t, y, x]);
    }
  }
  const { cos, sin } = rotaryTables(positions, axisDims, 10000);
  const shape = [positions.length, config.attention_head_dim / 2];
  return {
    cos: graph.constant("rope_cos", shape, "f32", cos),
    sin: graph.constant("rope_sin", shape, "f32", sin),
  };
}
