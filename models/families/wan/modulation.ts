/** How the timestep reaches the blocks: adaLN with a learned table per block. */
import {
  concat,
  elementwise,
  gather,
  type Graph,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer } from "../../blocks/layers.ts";
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
export const HEAD_MODULATION = ["shift", "scale"] as const;

/** Rows of a timestep: one that each row of a block's table is added to, and one for the head. */
export const TIMESTEP_ROWS = BLOCK_MODULATION.length + 1;

/** What blocks and head need of timesteps alone, [timesteps · {@linkcode TIMESTEP_ROWS}, dim], once for all steps. */
export function timestepRows(
  weights: WeightScope,
  embedding: Tensor,
  dim: number,
  rate?: 0 | 1,
): Tensor {
  const embedder = weights.scope("condition_embedder");
  const time = embedder.scope("time_embedder");
  const hidden = linearLayer(time, "linear_1", embedding, dim, { activation: "silu" });
  const temb = linearLayer(time, "linear_2", hidden, dim);
  const activated = elementwise("act_silu(t)", { t: temb });
  const rows = BLOCK_MODULATION.length * dim;
  let projected = linearLayer(embedder, "time_proj", activated, rows);
  if (rate !== undefined) {
    const t = projected;
    projected = elementwise("t + rate", { t, rate: rateRow(weights, t.graph, dim, rate) });
  }
  return concat([projected, temb], 1).reshape(-1, dim);
}

/** What SkyReels V2 adds to all timesteps for the frames per second, [1, rows of a block · dim]. */
function rateRow(weights: WeightScope, graph: Graph, dim: number, rate: 0 | 1): Tensor {
  const table = weights.scope("fps_embedding").tensor(graph, "weight", [2, dim]);
  const projection = weights.scope("fps_projection.net");
  const own = slice(table, 0, rate, rate + 1);
  const hidden = linearLayer(projection, "0.proj", own, dim, { activation: "silu" });
  return linearLayer(projection, "2", hidden, BLOCK_MODULATION.length * dim);
}

/** Rows of {@linkcode timestepRows} that make each of {@linkcode modulationTable}, [table rows, timesteps]. */
export function modulationIndices(
  config: WanTransformerConfig,
  timesteps: readonly number[],
): Uint32Array {
  const blockRows = blockNames(config).length * BLOCK_MODULATION.length;
  const indices: number[] = [];
  for (let row = 0; row < tableRows(config); row++) {
    const own = row < blockRows ? row % BLOCK_MODULATION.length : TIMESTEP_ROWS - 1;
    for (const timestep of timesteps) indices.push(timestep * TIMESTEP_ROWS + own);
  }
  return Uint32Array.from(indices);
}

/** Which timestep of a step each token has, u32 [tokens]: those that stay clean the first, which is 0. */
export function tokenTimesteps(graph: Graph, grid: TokenGrid, clean: number): Tensor {
  const rows = Uint32Array.from({ length: tokenCount(grid) }, (_, i) => (i < clean ? 0 : 1));
  return graph.constant("token timesteps", [rows.length], "u32", rows);
}

export function tableRows(config: WanTransformerConfig): number {
  return blockNames(config).length * BLOCK_MODULATION.length + HEAD_MODULATION.length;
}

export function blockNames({ num_layers, vace_layers }: WanTransformerConfig): string[] {
  const names = (list: string, count: number) =>
    Array.from({ length: count }, (_, i) => `${list}.${i}`);
  return [...names("blocks", num_layers), ...names("vace_blocks", vace_layers.length)];
}

/** The `scale_shift_table`s of all blocks and of the head, with the timesteps of one step added: [rows, timesteps, dim]. */
export function modulationTable(
  config: WanTransformerConfig,
  weights: WeightScope,
  timesteps: Tensor,
  indices: Tensor,
): Tensor {
  const { graph } = timesteps;
  const dim = timesteps.dim(-1);
  const parts = blockNames(config).map((block) => ({
    name: `${block}.scale_shift_table`,
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

/** The vectors of a block or the head, [timesteps, 1, dim]; with `tokenRows` [batch, tokens, dim], made where they are used. */
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
