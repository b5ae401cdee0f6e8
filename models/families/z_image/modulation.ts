/**
 * How the timestep reaches the blocks: scales of their norms, gates of their results. They depend on nothing else, so
 * that they are made once for all steps and the layers that make them are not needed later.
 */
import { concat, elementwise, slice, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import { linearLayer } from "../../layers.ts";
import { PATCH_KEY, timestepChannels, type ZImageTransformerConfig } from "./config.ts";

/** Channels of the sinusoidal embedding. */
export const TIMESTEP_FREQUENCIES = 256;
/** Width of the timestep's MLP. */
const TIMESTEP_HIDDEN = 1024;

/** Vectors of a block, in the order of the rows of its modulation layer. */
const BLOCK = ["scale_msa", "gate_msa", "scale_mlp", "gate_mlp"] as const;

/** What a block takes of one timestep, each [1, 1, dim]; gates are the arguments of a tanh. */
export type BlockModulation = Readonly<Record<typeof BLOCK[number], Tensor>>;

/** What the transformer takes of one timestep. */
export interface Modulation {
  /** Of every noise refiner. */
  readonly refiners: readonly BlockModulation[];
  /** Of every layer. */
  readonly layers: readonly BlockModulation[];
  /** Scale of the last norm, [1, 1, dim]. */
  readonly out: Tensor;
}

/** Vectors of a timestep, of `dim` numbers each. */
export function modulationRows({ n_refiner_layers, n_layers }: ZImageTransformerConfig): number {
  return (n_refiner_layers + n_layers) * BLOCK.length + 1;
}

/**
 * The vectors of all timesteps.
 *
 * @param embedding sinusoidal, [timesteps, {@linkcode TIMESTEP_FREQUENCIES}]
 * @returns [timesteps, {@linkcode modulationRows} · dim]
 */
export function modulationTable(
  config: ZImageTransformerConfig,
  weights: WeightScope,
  embedding: Tensor,
): Tensor {
  const { dim, n_refiner_layers, n_layers } = config;
  const mlp = weights.scope("t_embedder").scope("mlp");
  const hidden = linearLayer(mlp, "0", embedding, TIMESTEP_HIDDEN, { activation: "silu" });
  const temb = linearLayer(mlp, "2", hidden, timestepChannels(config));
  const blocks = (name: string, count: number) =>
    Array.from({ length: count }, (_, i) => {
      const block = weights.scope(name).scope(i);
      return linearLayer(block, "adaLN_modulation.0", temb, BLOCK.length * dim);
    });
  const activated = elementwise("act_silu(t)", { t: temb });
  const last = weights.scope("all_final_layer").scope(PATCH_KEY);
  return concat(
    [
      ...blocks("noise_refiner", n_refiner_layers),
      ...blocks("layers", n_layers),
      linearLayer(last, "adaLN_modulation.1", activated, dim),
    ],
    1,
    { name: "modulation" },
  );
}

/**
 * The vectors of one timestep.
 *
 * @param row of {@linkcode modulationTable}, any shape
 */
export function modulationVectors(config: ZImageTransformerConfig, row: Tensor): Modulation {
  const { dim, n_refiner_layers, n_layers } = config;
  const rows = modulationRows(config);
  const table = row.reshape(rows, 1, dim);
  const vector = (at: number, name: string) => slice(table, 0, at, at + 1, { name });
  const blocks = (first: number, count: number) =>
    Array.from({ length: count }, (_, i) => {
      const start = (first + i) * BLOCK.length;
      return Object.fromEntries(
        BLOCK.map((name, j) => [name, vector(start + j, name)] as const),
      ) as BlockModulation;
    });
  return {
    refiners: blocks(0, n_refiner_layers),
    layers: blocks(n_refiner_layers, n_layers),
    out: vector(rows - 1, "scale"),
  };
}
