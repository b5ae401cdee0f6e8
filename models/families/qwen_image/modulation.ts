/** Shifts, scales and gates: each block has layers of its own for them, a third of all weights, which run once for all steps. */
import { elementwise, gather, slice, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import {
  DOUBLE_MODULATION,
  OUT_MODULATION,
  type StreamModulation,
  type Streams,
  takeVectors,
  type Vectors,
} from "../../blocks/double_stream.ts";
import { linearLayer } from "../../blocks/layers.ts";
import type { QwenImageSizes, QwenImageTransformerConfig } from "./config.ts";
import { hiddenSize } from "../../config.ts";

export const TIMESTEP_CHANNELS = 256;
/** The transformer takes timesteps from 0 to 1, and its embedding counts them from 0 to 1000. */
export const TIMESTEP_SCALE = 1000;

/** The vectors of all timesteps for every block: those of the image, those of the text; [timesteps, 6 · dim] each. */
export type BlockTables = readonly { readonly image: Tensor; readonly text: Tensor }[];

/** The vectors of all timesteps, and behind them of the end of the way where given images go by that. */
export interface ModulationTables {
  readonly blocks: BlockTables;
  /** Vectors of the last norm, [timesteps, 2 · dim]. */
  readonly out: Tensor;
}

/** Everything that the blocks need of timesteps, [timesteps, {@linkcode TIMESTEP_CHANNELS}]. */
export function modulationTables(
  config: QwenImageTransformerConfig,
  weights: WeightScope,
  embedding: Tensor,
): ModulationTables {
  const temb = conditioned(config, weights, embeddedTimes(config, weights, embedding));
  const activated = elementwise("act_silu(t)", { t: temb });
  const rows = OUT_MODULATION.length * hiddenSize(config);
  return {
    blocks: tablesOf(config, weights, activated),
    out: linearLayer(weights, "norm_out.linear", activated, rows),
  };
}

export function blockTables(
  config: QwenImageSizes,
  weights: WeightScope,
  embedding: Tensor,
): BlockTables {
  const activated = elementwise("act_silu(t)", { t: embeddedTimes(config, weights, embedding) });
  return tablesOf(config, weights, activated);
}

function embeddedTimes(config: QwenImageSizes, weights: WeightScope, embedding: Tensor): Tensor {
  const dim = hiddenSize(config);
  const embedder = weights.scope("time_text_embed.timestep_embedder");
  const hidden = linearLayer(embedder, "linear_1", embedding, dim, { activation: "silu" });
  return linearLayer(embedder, "linear_2", hidden, dim);
}

function tablesOf(config: QwenImageSizes, weights: WeightScope, activated: Tensor): BlockTables {
  const rows = DOUBLE_MODULATION.length * hiddenSize(config);
  return Array.from({ length: config.num_layers }, (_, layer) => {
    const block = weights.scope("transformer_blocks").scope(layer);
    return {
      image: linearLayer(block, "img_mod.1", activated, rows),
      text: linearLayer(block, "txt_mod.1", activated, rows),
    };
  });
}

function conditioned(
  config: QwenImageTransformerConfig,
  weights: WeightScope,
  temb: Tensor,
): Tensor {
  if (!config.use_additional_t_cond) return temb;
  const shape = [2, hiddenSize(config)];
  const name = "time_text_embed.addition_t_embedding.weight";
  const table = weights.tensor(temb.graph, name, shape);
  return elementwise("t + a", { t: temb, a: slice(table, 0, 0, 1) });
}

/** What a block takes of one step, u32 [1]; given images go by the row `clean`, or like the result. */
export function blockModulation(
  { image, text }: BlockTables[number],
  step: Tensor,
  clean?: Tensor,
): Streams<StreamModulation> {
  return {
    image: rowOf(image, step, DOUBLE_MODULATION),
    text: rowOf(text, step, DOUBLE_MODULATION),
    ...(clean && { reference: rowOf(image, clean, DOUBLE_MODULATION) }),
  };
}

export function outModulation(table: Tensor, step: Tensor): Vectors<typeof OUT_MODULATION> {
  return rowOf(table, step, OUT_MODULATION);
}

function rowOf<Names extends readonly string[]>(
  table: Tensor,
  step: Tensor,
  names: Names,
): Vectors<Names> {
  return takeVectors(gather(table, step).reshape(names.length, 1, -1))(names);
}
