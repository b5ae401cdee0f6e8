/** How the timestep reaches the blocks: adaLN with a learned table per block. */
import {
  concat,
  elementwise,
  gather,
  type Graph,
  isFloat,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer } from "../../layers.ts";
import type { WanTransformerConfig } from "./config.ts";
import { tokenCount, type TokenGrid } from "./patches.ts";

/** Rows of a block's `scale_shift_table`. */
export const BLOCK_MODULATION = [
  "shift_msa",
  "scale_msa",
  "gate_msa",
  "shift_ffn",
  "scale_ffn",
  "gate_ffn",
] as const;
/** Rows of the head's. */
export const HEAD_MODULATION = ["shift", "scale"] as const;

/** Rows of a timestep: one that each row of a block's table is added to, and one for the head. */
export const TIMESTEP_ROWS = BLOCK_MODULATION.length + 1;

/**
 * What the blocks and the head need of timesteps; it depends on nothing else, so that it is computed once for all
 * steps.
 *
 * @param embedding sinusoidal, [timesteps, freq_dim]
 * @returns [timesteps · {@linkcode TIMESTEP_ROWS}, dim]
 */
export function timestepRows(weights: WeightScope, embedding: Tensor, dim: number): Tensor {
  const embedder = weights.scope("condition_embedder");
  const time = embedder.scope("time_embedder");
  const hidden = linearLayer(time, "linear_1", embedding, dim, { activation: "silu" });
  const temb = linearLayer(time, "linear_2", hidden, dim);
  const activated = elementwise("act_silu(t)", { t: temb });
  const projected = linearLayer(embedder, "time_proj", activated, BLOCK_MODULATION.length * dim);
  return concat([projected, temb], 1).reshape(-1, dim);
}

/**
 * Which of {@linkcode timestepRows} each row of {@linkcode modulationTable} is made from.
 *
 * @param timesteps indices of those that a step has, one or several
 * @returns [table rows, timesteps]
 */
export function modulationIndices(
  { num_layers }: WanTransformerConfig,
  timesteps: readonly number[],
): Uint32Array {
  const blockRows = num_layers * BLOCK_MODULATION.length;
  const indices: number[] = [];
  for (let row = 0; row < tableRows(num_layers); row++) {
    const own = row < blockRows ? row % BLOCK_MODULATION.length : TIMESTEP_ROWS - 1;
    for (const timestep of timesteps) indices.push(timestep * TIMESTEP_ROWS + own);
  }
  return Uint32Array.from(indices);
}

/** Which timestep of a step each token has, u32 [tokens]: those of a given first frame the first, which is 0. */
export function tokenTimesteps(graph: Graph, grid: TokenGrid): Tensor {
  const first = tokenCount({ ...grid, frames: 1 });
  const rows = Uint32Array.from({ length: tokenCount(grid) }, (_, i) => (i < first ? 0 : 1));
  return graph.constant("token timesteps", [rows.length], "u32", rows);
}

/** Rows of all `scale_shift_table`s. */
export function tableRows(layers: number): number {
  return layers * BLOCK_MODULATION.length + HEAD_MODULATION.length;
}

/**
 * The `scale_shift_table`s of all blocks and of the head, with the timesteps of one step added.
 *
 * @param timesteps of {@linkcode timestepRows}
 * @param indices u32 [rows, timesteps] of {@linkcode modulationIndices}
 * @returns [rows, timesteps, dim]
 */
export function modulationTable(
  { num_layers }: WanTransformerConfig,
  weights: WeightScope,
  timesteps: Tensor,
  indices: Tensor,
): Tensor {
  const { graph } = timesteps;
  const dim = timesteps.dim(-1);
  const parts = Array.from({ length: num_layers }, (_, layer) => ({
    name: `blocks.${layer}.scale_shift_table`,
    shape: [1, BLOCK_MODULATION.length, dim],
  }));
  parts.push({ name: "scale_shift_table", shape: [1, HEAD_MODULATION.length, dim] });
  const stacked = weights.stack(graph, parts) ??
    concat(parts.map(({ name, shape }) => weights.tensor(graph, name, shape)), 1);
  const table = stacked.reshape(-1, 1, dim);
  if (indices.dim(1) === 1) {
    return gather(timesteps, indices, { addend: table, name: "modulation" });
  }
  const rows = gather(timesteps, indices);
  return elementwise("table + t", { table, t: rows }, { name: "modulation" });
}

/**
 * The vectors of a block or the head. One that differs between tokens is made where it is used, because it is large.
 *
 * @param table [rows, timesteps, dim] of {@linkcode modulationTable}
 * @param first row of the first name
 * @param tokenRows u32 [batch, tokens], or nothing when all tokens of a sample have the same timestep
 * @returns by name, [timesteps, 1, dim], or [batch, tokens, dim]
 */
export function modulationVectors<Name extends string>(
  names: readonly Name[],
  table: Tensor,
  first: number,
  tokenRows?: Tensor,
): (name: Name) => Tensor {
  const dim = table.dim(-1);
  return (name) => {
    const row = first + names.indexOf(name);
    const vector = slice(table, 0, row, row + 1, { name });
    return tokenRows
      ? gather(vector.reshape(-1, dim), tokenRows, { name })
      : vector.reshape(-1, 1, dim);
  };
}

/** Repeats a tensor with a leading 1 for every sample of a batch. */
export function forEachSample(x: Tensor, batch: number): Tensor {
  if (x.dim(0) === batch) return x;
  if (!isFloat(x.dtype)) return concat(new Array<Tensor>(batch).fill(x), 0);
  const first = x.graph.constant("first sample", [batch], "u32", new Uint32Array(batch));
  return gather(x.reshape(1, -1), first).reshape(batch, ...x.shape.slice(1));
}
