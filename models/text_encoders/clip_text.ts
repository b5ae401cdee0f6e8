/**
 * CLIP's text tower, for the vector that sums a text up: the state of its end token.
 * Source: Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision"; transformers
 * `CLIPTextModel`, whose module names are the weight names.
 */
import { z } from "zod";
import {
  elementwise,
  f32,
  gather,
  type Graph,
  layerNorm,
  type Tensor,
  type TensorSource,
  u32,
  type Weights,
  type WeightScope,
} from "../../runtime/mod.ts";
import { affine, clipLayer } from "../blocks/clip_layer.ts";
import { checkDepth, padded, type TextEncoder, type TextEncoderParts } from "./text_encoder.ts";
import type { JsonObject } from "../../hub/json_file.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";

/** What `config.json` may say; defaults are those of transformers' `CLIPTextConfig`. */
export const CLIP_TEXT_CONFIG = z.object({
  model_type: z.literal("clip_text_model").default("clip_text_model"),
  vocab_size: z.int().positive().default(49408),
  hidden_size: z.int().positive().default(512),
  intermediate_size: z.int().positive().default(2048),
  num_hidden_layers: z.int().positive().default(12),
  num_attention_heads: z.int().positive().default(8),
  max_position_embeddings: z.int().positive().max(1024).default(77),
  hidden_act: z.enum(["gelu", "quick_gelu"]).default("quick_gelu"),
  layer_norm_eps: z.number().positive().max(1).default(1e-5),
  eos_token_id: z.int().nonnegative().nullish(),
}).refine(
  ({ hidden_size, num_attention_heads: heads }) =>
    hidden_size % (4 * heads) === 0 && hidden_size / heads <= 128,
  { path: ["num_attention_heads"], message: "heads must be multiples of 4 up to 128 wide" },
);

type ClipTextConfig = z.output<typeof CLIP_TEXT_CONFIG>;

/** The end token that old configurations name, whatever the vocabulary has. */
const OLD_EOS = 2;

/** Files of transformers before 5 have the modules below `text_model`. */
const WRAPPER = "text_model";
const TOKEN_EMBEDDING = "embeddings.token_embedding.weight";

function endOfText({ eos_token_id: eos }: ClipTextConfig, ids: readonly number[]): number {
  const end = eos === OLD_EOS || eos === undefined || eos === null
    ? ids.reduce((most, id) => Math.max(most, id))
    : eos;
  return Math.max(0, ids.indexOf(end));
}

/** The forward pass, [texts, hidden_size]; `ends`, u32 [texts], are end tokens' places in all texts together. */
export function clipText(
  graph: Graph,
  config: ClipTextConfig,
  weights: WeightScope,
  embeddings: Tensor,
  ends: Tensor,
): Tensor {
  const { hidden_size: dim, layer_norm_eps: eps, max_position_embeddings: places } = config;
  const model = weights.has(`${WRAPPER}.${TOKEN_EMBEDDING}`) ? weights.scope(WRAPPER) : weights;
  checkDepth(model.scope("encoder.layers"), config.num_hidden_layers, "layer_norm1.weight");
  const positions = model.tensor(graph, "embeddings.position_embedding.weight", [places, dim]);
  let x = elementwise("x + p", { x: embeddings, p: positions.reshape(1, places, dim) });
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    x = graph.scope(
      `layers.${layer}`,
      () => clipLayer(config, model.scope(`encoder.layers.${layer}`), x, { causal: true }),
    );
  }
  const states = gather(x.reshape(-1, dim), ends);
  return layerNorm(states, { eps, ...affine(graph, model, "final_layer_norm", dim) });
}

function clipEmbeddings(
  { vocab_size, hidden_size }: ClipTextConfig,
  weights: Weights,
  ids: readonly number[],
): Float32Array<ArrayBuffer> {
  const wrapped = `${WRAPPER}.${TOKEN_EMBEDDING}`;
  const name = weights.has(wrapped) ? wrapped : TOKEN_EMBEDDING;
  return weights.readRows(name, [vocab_size, hidden_size], ids);
}

/** CLIP for pipelines: a vector for each prompt, [prompts, hidden_size]; every position is a row. */
export function clipTextEncoder(
  { config, weights }: TextEncoderParts<ClipTextConfig>,
  padId: number,
): TextEncoder {
  const { hidden_size: dim, max_position_embeddings: places } = config;
  return {
    inputs: (prompts) => ({ embeddings: f32(prompts, places, dim), ends: u32(prompts) }),
    trace: ({ embeddings, ends }, graph) =>
      clipText(graph, config, weights.root, embeddings!, ends!),
    values: (tokens) => {
      const ids = padded(tokens, places, padId).flat();
      return {
        embeddings: clipEmbeddings(config, weights, ids),
        ends: tokens.map((own, i) => i * places + endOfText(config, own)),
      };
    },
  };
}

const HEAD_DIM = 64;
/** Width of OpenAI's large tower; those of OpenCLIP are wider, and have another activation. */
const LARGE_DIM = 768;

/** CLIP's text tower in single files. What stands before the names, such as `text_model.`, counts as a prefix. */
export const CLIP_TEXT_FORMAT: ComponentFormat = {
  name: "a CLIP text encoder",
  component: "text_encoder",
  className: "CLIPTextModel",
  namings: [{ probes: [TOKEN_EMBEDDING, "encoder.layers.0.self_attn.q_proj.weight"] }],
  fits: (tensors) => shapeOf(tensors, TOKEN_EMBEDDING, 2)[1] === LARGE_DIM,
  lacksTokenizer: true,
  config,
};

function config(tensors: TensorSource): JsonObject {
  const [vocabSize, dim] = shapeOf(tensors, TOKEN_EMBEDDING, 2) as [number, number];
  return {
    model_type: "clip_text_model",
    vocab_size: vocabSize,
    hidden_size: dim,
    intermediate_size: shapeOf(tensors, "encoder.layers.0.mlp.fc1.weight", 2)[0]!,
    num_hidden_layers: countLayers(tensors, "encoder.layers."),
    num_attention_heads: Math.max(1, dim / HEAD_DIM),
    max_position_embeddings: shapeOf(tensors, "embeddings.position_embedding.weight", 2)[0]!,
    hidden_act: "quick_gelu",
  };
}
