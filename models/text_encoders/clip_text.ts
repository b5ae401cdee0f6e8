/**
 * CLIP's text towers: the states of a prompt's tokens, and the vector that sums a text up, the state of its end token.
 * Source: Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision"; transformers
 * `CLIPTextModel` and `CLIPTextModelWithProjection`, whose module names are the weight names.
 */
import { z } from "zod";
import {
  elementwise,
  f32,
  gather,
  layerNorm,
  type Tensor,
  u32,
  type Weights,
  type WeightScope,
} from "../../runtime/mod.ts";
import { affine, clipLayer } from "../blocks/clip_layer.ts";
import { linearLayer } from "../blocks/layers.ts";
import { headFits } from "../config.ts";
import { checkDepth, padded, type TextEncoder, type TextEncoderParts } from "./text_encoder.ts";

/** What `config.json` may say; defaults are those of transformers' `CLIPTextConfig`. */
export const CLIP_TEXT_CONFIG = z.object({
  model_type: z.literal("clip_text_model").default("clip_text_model"),
  vocab_size: z.int().positive().default(49408),
  hidden_size: z.int().positive().default(512),
  intermediate_size: z.int().positive().default(2048),
  projection_dim: z.int().positive().default(512),
  num_hidden_layers: z.int().positive().default(12),
  num_attention_heads: z.int().positive().default(8),
  max_position_embeddings: z.int().positive().max(1024).default(77),
  hidden_act: z.enum(["gelu", "quick_gelu"]).default("quick_gelu"),
  layer_norm_eps: z.number().positive().max(1).default(1e-5),
  eos_token_id: z.int().nonnegative().nullish(),
}).refine(
  ({ hidden_size, num_attention_heads: heads }) => headFits(hidden_size / heads),
  { path: ["num_attention_heads"], message: "heads must be multiples of 4 up to 128 wide" },
);

export type ClipTextConfig = z.output<typeof CLIP_TEXT_CONFIG>;

/** The end token that old configurations name, whatever the vocabulary has. */
const OLD_EOS = 2;
/** Ids of CLIP's vocabulary, whose last one is the end token; words that a model has learnt come after it. */
const CLIP_IDS = 49408;

/** Files of transformers before 5 have the modules below `text_model`. */
export const CLIP_WRAPPER = "text_model";
export const TOKEN_EMBEDDING = "embeddings.token_embedding.weight";

/** Place of the first end token. */
export function clipEnd(
  { eos_token_id: eos, vocab_size }: ClipTextConfig,
  ids: readonly number[],
): number {
  const words = Math.min(vocab_size, CLIP_IDS);
  const end = eos === OLD_EOS || eos === undefined || eos === null
    ? ids.reduce((most, id) => (id < words ? Math.max(most, id) : most), 0)
    : eos;
  return Math.max(0, ids.indexOf(end));
}

/**
 * States after layers, numbered as transformers' `hidden_states`, before the final norm: each as the embeddings, rows of
 * the table [texts, max_position_embeddings, hidden_size].
 */
export function clipStates(
  config: ClipTextConfig,
  weights: WeightScope,
  embeddings: Tensor,
  layers: readonly number[],
): Tensor[] {
  const { hidden_size: dim, max_position_embeddings: places, num_hidden_layers: count } = config;
  const { graph } = embeddings;
  const wrong = layers.find((layer) => !(Number.isInteger(layer) && layer >= 0 && layer <= count));
  if (wrong !== undefined) {
    throw new RangeError(
      `Cannot take the states after layer ${wrong}: the text encoder has ${count} layers`,
    );
  }
  const model = modules(weights);
  checkDepth(model.scope("encoder.layers"), count, "layer_norm1.weight");
  const positions = model.tensor(graph, "embeddings.position_embedding.weight", [places, dim]);
  const all = [elementwise("x + p", { x: embeddings, p: positions.reshape(1, places, dim) })];
  for (let layer = 0; layer < Math.max(...layers); layer++) {
    all.push(graph.scope(
      `layers.${layer}`,
      () =>
        clipLayer(config, model.scope(`encoder.layers.${layer}`), all[layer]!, { causal: true }),
    ));
  }
  return layers.map((layer) => all[layer]!);
}

export function clipFinalNorm(config: ClipTextConfig, weights: WeightScope, x: Tensor): Tensor {
  const { hidden_size: dim, layer_norm_eps: eps } = config;
  return layerNorm(x, { eps, ...affine(x.graph, modules(weights), "final_layer_norm", dim) });
}

/**
 * The states of end tokens, [n, hidden_size], or what `CLIPTextModelWithProjection` makes of them, [n, projection_dim].
 * `ends`, u32 [n], are places in all texts together.
 */
export function clipPooled(
  config: ClipTextConfig,
  weights: WeightScope,
  lastStates: Tensor,
  ends: Tensor,
  { isProjected = false }: { readonly isProjected?: boolean } = {},
): Tensor {
  const { hidden_size: dim, projection_dim: width } = config;
  const pooled = clipFinalNorm(config, weights, gather(lastStates.reshape(-1, dim), ends));
  return isProjected ? linearLayer(weights, "text_projection", pooled, width) : pooled;
}

function modules(weights: WeightScope): WeightScope {
  const isWrapped = weights.has(`${CLIP_WRAPPER}.${TOKEN_EMBEDDING}`);
  return isWrapped ? weights.scope(CLIP_WRAPPER) : weights;
}

/** Rows that lie behind the embedding table, such as those of textual inversions. */
export interface FurtherRows {
  row(id: number): Float32Array;
}

export function clipEmbeddings(
  { vocab_size, hidden_size }: ClipTextConfig,
  weights: Weights,
  ids: readonly number[],
  further?: FurtherRows,
): Float32Array<ArrayBuffer> {
  const name = `${modules(weights.root).scope("embeddings.token_embedding").path}.weight`;
  const isFurther = (id: number) => further !== undefined && id >= vocab_size;
  const own = ids.map((id) => (isFurther(id) ? 0 : id));
  const rows = weights.readRows(name, [vocab_size, hidden_size], own);
  ids.forEach((id, i) => isFurther(id) && rows.set(further!.row(id), i * hidden_size));
  return rows;
}

/** CLIP for pipelines: a vector for each prompt, [prompts, hidden_size]; every position is a row. */
export function clipTextEncoder(
  { config, weights: { root }, weights }: TextEncoderParts<ClipTextConfig>,
  padId: number,
): TextEncoder {
  const { hidden_size: dim, max_position_embeddings: places, num_hidden_layers } = config;
  return {
    inputs: (prompts) => ({ embeddings: f32(prompts, places, dim), ends: u32(prompts) }),
    trace: ({ embeddings, ends }) => {
      const [states] = clipStates(config, root, embeddings!, [num_hidden_layers]);
      return clipPooled(config, root, states!, ends!);
    },
    values: (tokens) => {
      const ids = padded(tokens, places, padId).flat();
      return {
        embeddings: clipEmbeddings(config, weights, ids),
        ends: tokens.map((own, i) => i * places + clipEnd(config, own)),
      };
    },
  };
}
