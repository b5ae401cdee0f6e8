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
import type { Sd3TransformerConfig } from "./config.ts";

export const TIMESTEP_CHANNELS = 256;

/** Vectors of an image that attends itself alone, too. */
const SELF_MODULATION = ["shift", "scale", "gate"] as const;

/** The vectors of all timesteps for every block: [timesteps, vectors · dim]. */
export interface ModulationTables {
  readonly blocks: readonly { readonly image: Tensor; readonly text: Tensor }[];
  readonly out: Tensor;
}

export interface BlockModulation {
  readonly image: StreamModulation;
  /** Of an image that attends itself alone, too. */
  readonly self?: Vectors<typeof SELF_MODULATION> | undefined;
  /** The last block has no use for more of the text than its norm. */
  readonly text: StreamModulation | Vectors<typeof OUT_MODULATION>;
}

/** `timesteps` are sinusoidal embeddings, [timesteps, 256]; `pooled`, [1, pooled_projection_dim], sums a prompt up. */
export function modulationTables(
  config: Sd3TransformerConfig,
  weights: WeightScope,
  timesteps: Tensor,
  pooled: Tensor,
): ModulationTables {
  const dim = hiddenSize(config);
  const embedder = weights.scope("time_text_embed");
  const time = embeddingLayers(embedder.scope("timestep_embedder"), timesteps, dim);
  const prompt = embeddingLayers(embedder.scope("text_embedder"), pooled, dim);
  const activated = elementwise("act_silu(t + p)", { t: time, p: prompt }, { name: "temb" });
  const table = (scope: WeightScope, name: string, count: number) =>
    linearLayer(scope, `${name}.linear`, activated, count * dim);
  return {
    blocks: Array.from({ length: config.num_layers }, (_, layer) => {
      const block = weights.scope("transformer_blocks").scope(layer);
      const own = config.dual_attention_layers.includes(layer) ? SELF_MODULATION.length : 0;
      const isLast = layer === config.num_layers - 1;
      const text = isLast ? OUT_MODULATION : DOUBLE_MODULATION;
      return {
        image: table(block, "norm1", DOUBLE_MODULATION.length + own),
        text: table(block, "norm1_context", text.length),
      };
    }),
    out: table(weights, "norm_out", OUT_MODULATION.length),
  };
}

export function blockModulation(
  config: Sd3TransformerConfig,
  { image, text }: ModulationTables["blocks"][number],
  step: Tensor,
  layer: number,
): BlockModulation {
  const dim = hiddenSize(config);
  const [ofImage, ofText] = [rowOf(image, step, dim), rowOf(text, step, dim)];
  const isDual = config.dual_attention_layers.includes(layer);
  return {
    image: ofImage(DOUBLE_MODULATION),
    self: isDual ? ofImage(SELF_MODULATION) : undefined,
    text: layer === config.num_layers - 1 ? ofText(OUT_MODULATION) : ofText(DOUBLE_MODULATION),
  };
}

export function rowOf(table: Tensor, step: Tensor, dim: number): ReturnType<typeof takeVectors> {
  return takeVectors(gather(table, step).reshape(-1, 1, dim));
}
