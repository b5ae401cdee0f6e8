/**
 * How timestep, guidance and the prompt's summary reach the blocks. Every block has a layer of its own for that, more
 * than a quarter of all weights; what they give for all timesteps is computed before the first step.
 */
import { elementwise, gather, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import {
  DOUBLE_MODULATION,
  OUT_MODULATION,
  SINGLE_MODULATION,
  type StreamModulation,
  takeVectors,
  type Vectors,
} from "../../double_stream.ts";
import { embeddingLayers, linearLayer } from "../../layers.ts";
import { type Flux1TransformerConfig, hiddenSize } from "./config.ts";

/** Width of the sinusoidal embeddings. */
export const EMBEDDING_CHANNELS = 256;
/** What the guidance scale is multiplied by before it is embedded. */
export const EMBEDDING_SCALE = 1000;

/** Of every layer that makes vectors, those of all timesteps: [timesteps, vectors · dim]. */
export interface ModulationTables {
  readonly double: readonly { readonly image: Tensor; readonly text: Tensor }[];
  readonly single: readonly Tensor[];
  readonly out: Tensor;
}

/** What the blocks take of one timestep. */
export interface Modulation {
  readonly double: readonly { readonly image: StreamModulation; readonly text: StreamModulation }[];
  readonly single: readonly Vectors<typeof SINGLE_MODULATION>[];
  readonly out: Vectors<typeof OUT_MODULATION>;
}

/**
 * Everything that the blocks need of timesteps.
 *
 * @param timesteps their sinusoidal embedding, [timesteps, {@linkcode EMBEDDING_CHANNELS}]
 * @param guidance likewise of the guidance scale, [1, {@linkcode EMBEDDING_CHANNELS}]; not for models without it
 * @param summary of the prompt, embedded, [1, dim]
 */
export function modulationTables(
  config: Flux1TransformerConfig,
  weights: WeightScope,
  timesteps: Tensor,
  guidance: Tensor | undefined,
  summary: Tensor,
): ModulationTables {
  const dim = hiddenSize(config);
  const embedder = weights.scope("time_text_embed");
  let embedding = embeddingLayers(embedder.scope("timestep_embedder"), timesteps, dim);
  if (guidance) {
    const added = embeddingLayers(embedder.scope("guidance_embedder"), guidance, dim);
    embedding = elementwise("t + g", { t: embedding, g: added });
  }
  const activated = elementwise("act_silu(t + p)", { t: embedding, p: summary }, { name: "temb" });
  const table = (scope: WeightScope, name: string, { length }: readonly string[]) =>
    linearLayer(scope, name, activated, length * dim);
  return {
    double: Array.from({ length: config.num_layers }, (_, layer) => {
      const block = weights.scope("transformer_blocks").scope(layer);
      return {
        image: table(block, "norm1.linear", DOUBLE_MODULATION),
        text: table(block, "norm1_context.linear", DOUBLE_MODULATION),
      };
    }),
    single: Array.from({ length: config.num_single_layers }, (_, layer) => {
      const block = weights.scope("single_transformer_blocks").scope(layer);
      return table(block, "norm.linear", SINGLE_MODULATION);
    }),
    out: table(weights, "norm_out.linear", OUT_MODULATION),
  };
}

/** The vectors of one timestep: a row of every table. */
export function modulationOf(tables: ModulationTables, step: Tensor, dim: number): Modulation {
  const take = (table: Tensor) => takeVectors(gather(table, step).reshape(-1, 1, dim));
  return {
    double: tables.double.map(({ image, text }) => ({
      image: take(image)(DOUBLE_MODULATION),
      text: take(text)(DOUBLE_MODULATION),
    })),
    single: tables.single.map((table) => take(table)(SINGLE_MODULATION)),
    out: take(tables.out)(OUT_MODULATION),
  };
}
