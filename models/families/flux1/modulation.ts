/** Every block has a layer of its own for its vectors, over a quarter of all weights; they run once, before the first step. */
import { elementwise, gather, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import {
  DOUBLE_MODULATION,
  OUT_MODULATION,
  SINGLE_MODULATION,
  type StreamModulation,
  takeVectors,
  type Vectors,
} from "../../blocks/double_stream.ts";
import { embeddingLayers, linearLayer } from "../../blocks/layers.ts";
import type { Flux1TransformerConfig } from "./config.ts";
import { hiddenSize } from "../../config.ts";

export const EMBEDDING_CHANNELS = 256;
export const EMBEDDING_SCALE = 1000;

/** The vectors of all timesteps for every block: [timesteps, vectors · dim]. */
export interface BlockTables {
  readonly double: readonly { readonly image: Tensor; readonly text: Tensor }[];
  readonly single: readonly Tensor[];
}

export interface ModulationTables extends BlockTables {
  readonly out: Tensor;
}

export interface BlockModulation {
  readonly double: readonly { readonly image: StreamModulation; readonly text: StreamModulation }[];
  readonly single: readonly Vectors<typeof SINGLE_MODULATION>[];
}

export interface Modulation extends BlockModulation {
  readonly out: Vectors<typeof OUT_MODULATION>;
}

type ModulationSizes = Pick<
  Flux1TransformerConfig,
  | "num_layers"
  | "num_single_layers"
  | "num_attention_heads"
  | "attention_head_dim"
  | "guidance_embeds"
>;

type BlockCounts = Pick<ModulationSizes, "num_layers" | "num_single_layers">;

export interface Times {
  /** Sinusoidal embedding of timesteps, [timesteps, {@linkcode EMBEDDING_CHANNELS}]. */
  readonly timesteps: Tensor;
  /** Sinusoidal embedding of the guidance scale, [1, {@linkcode EMBEDDING_CHANNELS}], for a model that takes it. */
  readonly guidance: Tensor | undefined;
  /** Summary of the prompt, embedded, [1, dim]. */
  readonly summary: Tensor;
}

export function modulationTables(
  config: ModulationSizes,
  weights: WeightScope,
  times: Times,
): ModulationTables {
  return timeTables(config, weights, activatedTimes(config, weights, times));
}

/** As {@linkcode modulationTables}, of embedded timesteps, activated: [timesteps, dim]. */
export function timeTables(
  config: BlockCounts,
  weights: WeightScope,
  activated: Tensor,
): ModulationTables {
  return {
    ...tablesOf(config, weights, activated),
    out: tableOf(weights, "norm_out.linear", activated, OUT_MODULATION),
  };
}

export function blockTables(
  config: ModulationSizes,
  weights: WeightScope,
  times: Times,
): BlockTables {
  return tablesOf(config, weights, activatedTimes(config, weights, times));
}

function activatedTimes(
  config: ModulationSizes,
  weights: WeightScope,
  { timesteps, guidance, summary }: Times,
): Tensor {
  const dim = hiddenSize(config);
  const embedder = weights.scope("time_text_embed");
  let embedding = embeddingLayers(embedder.scope("timestep_embedder"), timesteps, dim);
  if (guidance && config.guidance_embeds) {
    const added = embeddingLayers(embedder.scope("guidance_embedder"), guidance, dim);
    embedding = elementwise("t + g", { t: embedding, g: added });
  }
  return elementwise("act_silu(t + p)", { t: embedding, p: summary }, { name: "temb" });
}

function tableOf(
  scope: WeightScope,
  name: string,
  activated: Tensor,
  { length }: readonly string[],
): Tensor {
  return linearLayer(scope, name, activated, length * activated.dim(-1));
}

function tablesOf(config: BlockCounts, weights: WeightScope, activated: Tensor): BlockTables {
  return {
    double: Array.from({ length: config.num_layers }, (_, layer) => {
      const block = weights.scope("transformer_blocks").scope(layer);
      return {
        image: tableOf(block, "norm1.linear", activated, DOUBLE_MODULATION),
        text: tableOf(block, "norm1_context.linear", activated, DOUBLE_MODULATION),
      };
    }),
    single: Array.from({ length: config.num_single_layers }, (_, layer) => {
      const block = weights.scope("single_transformer_blocks").scope(layer);
      return tableOf(block, "norm.linear", activated, SINGLE_MODULATION);
    }),
  };
}

export function modulationOf(tables: ModulationTables, step: Tensor, dim: number): Modulation {
  return {
    ...blockModulationOf(tables, step, dim),
    out: takeRow(tables.out, step, dim)(OUT_MODULATION),
  };
}

export function blockModulationOf(tables: BlockTables, step: Tensor, dim: number): BlockModulation {
  const take = (table: Tensor) => takeRow(table, step, dim);
  return {
    double: tables.double.map(({ image, text }) => ({
      image: take(image)(DOUBLE_MODULATION),
      text: take(text)(DOUBLE_MODULATION),
    })),
    single: tables.single.map((table) => take(table)(SINGLE_MODULATION)),
  };
}

function takeRow(table: Tensor, step: Tensor, dim: number): ReturnType<typeof takeVectors> {
  return takeVectors(gather(table, step).reshape(-1, 1, dim));
}
