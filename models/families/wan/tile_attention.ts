/**
 * Attention of tiles of 4×4×4 tokens to the means of all tiles, which a gate adds to that of tokens (sparsity 0).
 * Source: Zhang et al. 2025, "VSA: Faster Video Diffusion with Trainable Sparse Attention"; FastVideo `video_sparse_attn`.
 */
import {
  attention,
  elementwise,
  gather,
  type Graph,
  matmul,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import type { TokenGrid } from "./patches.ts";

/** Tokens of a tile along each axis; at the ends of the grid it has fewer. */
const TILE = 4;

export const TILE_GATE = "to_gate_compress";

export interface Tiles {
  /** [tiles, tokens]: the share of each token in the mean of a tile. */
  readonly means: Tensor;
  /** u32 [batch, tokens]: rows of the tiles of all samples of a batch. */
  rows(batch: number): Tensor;
}

/** Whether a model has gates; all of its blocks do, or none. */
export function hasTiles(weights: WeightScope): boolean {
  return weights.has(`blocks.0.${TILE_GATE}.weight`);
}

export function tilesOf(graph: Graph, grid: TokenGrid): Tiles {
  const { frames, height, width } = grid;
  const [down, across] = [height, width].map((side) => Math.ceil(side / TILE)) as [number, number];
  const count = Math.ceil(frames / TILE) * down * across;
  const tokens = frames * height * width;
  const tileOf = (token: number) => {
    const [x, y, t] = [token % width, Math.floor(token / width) % height, token / width / height];
    const at = (position: number) => Math.floor(position / TILE);
    return (at(t) * down + at(y)) * across + at(x);
  };
  const all = Array.from({ length: tokens }, (_, token) => tileOf(token));
  const rows = new Map<number, Tensor>();
  return {
    means: graph.constant("tile_means", [count, tokens], "f32", () => {
      const sizes = new Uint32Array(count);
      for (const tile of all) sizes[tile]!++;
      const shares = new Float32Array(count * tokens);
      all.forEach((tile, token) => shares[tile * tokens + token] = 1 / sizes[tile]!);
      return shares;
    }),
    rows(batch) {
      const values = () =>
        Uint32Array.from(
          { length: batch * tokens },
          (_, i) => Math.floor(i / tokens) * count + all[i % tokens]!,
        );
      let own = rows.get(batch);
      if (!own) rows.set(batch, own = graph.constant("tile_rows", [batch, tokens], "u32", values));
      return own;
    },
  };
}

export function withTiles(
  { means, rows }: Tiles,
  attended: Tensor,
  gate: Tensor,
  states: readonly [queries: Tensor, keys: Tensor, values: Tensor],
): Tensor {
  const [batch, tokens, heads, headDim] = attended.shape as [number, number, number, number];
  const [q, k, v] = states.map((x) =>
    matmul(means, x.reshape(batch, tokens, heads * headDim), { name: "tile_means" })
      .reshape(batch, -1, heads, headDim)
  ) as [Tensor, Tensor, Tensor];
  const tiles = attention(q, k, v, { name: "tiles" }).reshape(-1, heads * headDim);
  return elementwise("attended + gate * tile", {
    attended: attended.reshape(...gate.shape),
    gate,
    tile: gather(tiles, rows(batch), { name: "own_tile" }),
  });
}
