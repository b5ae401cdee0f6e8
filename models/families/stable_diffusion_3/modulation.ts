/** Every block has layers of its own for its shifts, scales and gates; they run once for all steps, before the first. */
import { elementwise, gather, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import {
  DOUBLE_MODULATION,
  OUT_MODULATION,
  type StreamModulation,
  takeVectors,
  type Vectors,
} from "../../blocks/double_stream.ts";
import { embeddingLayers, linearLayer } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import type { Sd3Sizes } from "./config.ts";

export const TIMESTEP_CHANNELS = 256;

/** Vectors of an image that attends itself alone, too. */
const SELF_MODULATION = ["shift", "scale", "gate"] as const;

/** The vectors of all timesteps for a block: [timesteps, vectors · dim]. */
export interface BlockTables {
  readonly image: Tensor;
  readonly text: Tensor;
}

export interface ModulationTables {
  readonly blocks: readonly BlockTables[];
  readonly out: Tensor;
}

export interface BlockModulation {
  readonly image: StreamModulation;
  /** Of an image that attends itself alone, too. */
  readonly self?: Vectors<typeof SELF_MODULATION> | undefined;
  /** The last block of a transformer has no use for more of the text than its norm; some ControlNets see no text. */
  readonly text?: StreamModulation | Vectors<typeof OUT_MODULATION> | undefined;
}

export function modulationTables(
  config: Sd3Sizes,
  weights: WeightScope,
  timesteps: Tensor,
  pooled: Tensor,
): ModulationTables {
  const activated = activatedTimes(config, weights, timesteps, pooled);
  return {
    blocks: tablesOf(config, weights, activated),
    out: tableOf(weights, "norm_out", activated, OUT_MODULATION.length),
  };
}

/** `timesteps` are sinusoidal embeddings, [timesteps, 256]; `pooled`, [1, pooled_projection_dim], sums a prompt up. */
export function blockTables(
  config: Sd3Sizes,
  weights: WeightScope,
  timesteps: Tensor,
  pooled: Tensor,
): BlockTables[] {
  return tablesOf(config, weights, activatedTimes(config, weights, timesteps, pooled));
}

function activatedTimes(
  config: Sd3Sizes,
  weights: WeightScope,
  timesteps: Tensor,
  pooled: Tensor,
): Tensor {
  const dim = hiddenSize(config);
  const embedder = weights.scope("time_text_embed");
  const time = embeddingLayers(embedder.scope("timestep_embedder"), timesteps, dim);
  const prompt = embeddingLayers(embedder.scope("text_embedder"), pooled, dim);
  return elementwise("act_silu(t + p)", { t: time, p: prompt }, { name: "temb" });
}

function tableOf(scope: WeightScope, name: string, activated: Tensor, count: number): Tensor {
  return linearLayer(scope, `${name}.linear`, activated, count * activated.dim(-1));
}

function tablesOf(config: Sd3Sizes, weights: WeightScope, activated: Tensor): BlockTables[] {
  return Array.from({ length: config.num_layers }, (_, layer) => {
    const block = weights.scope("transformer_blocks").scope(layer);
    const own = isDual(config, layer) ? SELF_MODULATION.length : 0;
    const image = tableOf(block, "norm1", activated, DOUBLE_MODULATION.length + own);
    const names = textVectors(config, layer);
    return {
      image,
      text: names ? tableOf(block, "norm1_context", activated, names.length) : image,
    };
  });
}

function isDual({ dual_attention_layers: layers }: Sd3Sizes, layer: number): boolean {
  return layers.includes(layer);
}

function textVectors(config: Sd3Sizes, layer: number) {
  const { _class_name, joint_attention_dim: width, num_layers } = config;
  if (width === null) return undefined;
  const isLast = _class_name === "SD3Transformer2DModel" && layer === num_layers - 1;
  return isLast ? OUT_MODULATION : DOUBLE_MODULATION;
}

export function blockModulation(
  config: Sd3Sizes,
  { image, text }: BlockTables,
  step: Tensor,
  layer: number,
): BlockModulation {
  const dim = hiddenSize(config);
  const ofImage = rowOf(image, step, dim);
  const names = textVectors(config, layer);
  return {
    image: ofImage(DOUBLE_MODULATION),
    self: isDual(config, layer) ? ofImage(SELF_MODULATION) : undefined,
    text: names && rowOf(text, step, dim)(names),
  };
}

export function rowOf(table: Tensor, step: Tensor, dim: number): ReturnType<typeof takeVectors> {
  return takeVectors(gather(table, step).reshape(-1, 1, dim));
}
