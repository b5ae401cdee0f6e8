/** Scales of the blocks' norms and gates of their results, made once for all steps. */
import { concat, elementwise, slice, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import { linearLayer } from "../../blocks/layers.ts";
import { PATCH_KEY, timestepChannels, type ZImageTransformerConfig } from "./config.ts";

export const TIMESTEP_FREQUENCIES = 256;
const TIMESTEP_HIDDEN = 1024;

/** Vectors of a block, in the order of the rows of its modulation layer. */
const BLOCK = ["scale_msa", "gate_msa", "scale_mlp", "gate_mlp"] as const;
export const VECTORS = BLOCK.length;

/** What a block takes of one timestep, each [1, 1, dim]; gates are the arguments of a tanh. */
export type BlockModulation = Readonly<Record<typeof BLOCK[number], Tensor>>;

export interface Modulation {
  readonly refiners: readonly BlockModulation[];
  readonly layers: readonly BlockModulation[];
  /** Scale of the last norm, [1, 1, dim]. */
  readonly out: Tensor;
}

export function modulationRows({ n_refiner_layers, n_layers }: ZImageTransformerConfig): number {
  return (n_refiner_layers + n_layers) * VECTORS + 1;
}

/** The vectors of all timesteps, [timesteps, {@linkcode modulationRows} · dim]. */
export function modulationTable(
  config: ZImageTransformerConfig,
  weights: WeightScope,
  embedding: Tensor,
): Tensor {
  const { dim, n_refiner_layers, n_layers } = config;
  const temb = timestepState(config, weights, embedding);
  const activated = elementwise("act_silu(t)", { t: temb });
  const last = weights.scope("all_final_layer").scope(PATCH_KEY);
  return concat(
    [
      ...blockRows(weights, temb, dim, { noise_refiner: n_refiner_layers, layers: n_layers }),
      linearLayer(last, "adaLN_modulation.1", activated, dim),
    ],
    1,
    { name: "modulation" },
  );
}

/** The vectors of all timesteps of a ControlNet's blocks, by the names of their stacks: [timesteps, blocks · 4 · dim]. */
export function controlTable(
  config: ZImageTransformerConfig,
  weights: WeightScope,
  control: WeightScope,
  counts: Readonly<Record<string, number>>,
  embedding: Tensor,
): Tensor {
  const temb = timestepState(config, weights, embedding);
  return concat(blockRows(control, temb, config.dim, counts), 1, { name: "control modulation" });
}

function timestepState(
  config: ZImageTransformerConfig,
  weights: WeightScope,
  embedding: Tensor,
): Tensor {
  const mlp = weights.scope("t_embedder").scope("mlp");
  const hidden = linearLayer(mlp, "0", embedding, TIMESTEP_HIDDEN, { activation: "silu" });
  return linearLayer(mlp, "2", hidden, timestepChannels(config));
}

/** Vectors of every block, [timesteps, 4 · dim]. */
function blockRows(
  weights: WeightScope,
  temb: Tensor,
  dim: number,
  counts: Readonly<Record<string, number>>,
): Tensor[] {
  return Object.entries(counts).flatMap(([name, count]) =>
    Array.from({ length: count }, (_, i) => {
      const block = weights.scope(name).scope(i);
      return linearLayer(block, "adaLN_modulation.0", temb, VECTORS * dim);
    })
  );
}

export function modulationVectors(config: ZImageTransformerConfig, row: Tensor): Modulation {
  const { dim, n_refiner_layers, n_layers } = config;
  const rows = modulationRows(config);
  const table = row.reshape(rows, 1, dim);
  return {
    refiners: blockVectors(table, 0, n_refiner_layers),
    layers: blockVectors(table, n_refiner_layers, n_layers),
    out: slice(table, 0, rows - 1, rows, { name: "scale" }),
  };
}

/** The vectors of blocks that follow each other, of a table [vectors, 1, dim]. */
export function blockVectors(table: Tensor, first: number, count: number): BlockModulation[] {
  return Array.from({ length: count }, (_, i) => {
    const start = (first + i) * VECTORS;
    return Object.fromEntries(
      BLOCK.map((name, j) => [name, slice(table, 0, start + j, start + j + 1, { name })] as const),
    ) as BlockModulation;
  });
}
