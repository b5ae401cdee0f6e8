/** Gemma 2 as text encoder; `gemma3.ts` computes it. Source: transformers `Gemma2Config`. */
import { z } from "zod";
import { isObject, type JsonObject } from "../../hub/json_file.ts";
import { f32, type GgufValue, type TensorSource } from "../../runtime/mod.ts";
import type { ComponentFormat } from "../checkpoints/component_format.ts";
import { Stated } from "../checkpoints/stated.ts";
import { gemma3Embeddings, gemma3Encoder } from "./gemma3.ts";
import { checkGemma, GEMMA_SIZES, LLAMA_CPP_GEMMA3 } from "./gemma3_config.ts";
import { languageConfig } from "./qwen3.ts";
import { padded, type TextEncoder, type TextEncoderParts } from "./text_encoder.ts";

const LAYER_TYPES = ["full_attention", "sliding_attention"] as const;
type LayerType = typeof LAYER_TYPES[number];

/** Base of the rotary frequencies, and what scores are capped at, where a file has none. */
const ROPE_THETA = 1e4;
const SOFT_CAP = 50;
/** Elements of a head of the published models of 2 and 9 billion parameters. */
const PUBLISHED_HEAD = 256;

/** `config.json` of the encoder. */
export const GEMMA2_CONFIG = z.preprocess(
  (json) => {
    if (!isObject(json)) return json;
    const { rope_parameters: rope, rope_theta } = json;
    return { ...json, rope: isObject(rope) ? rope : { rope_theta: rope_theta ?? ROPE_THETA } };
  },
  z.object({
    model_type: z.literal("gemma2").default("gemma2"),
    vocab_size: z.int().positive().default(256000),
    ...GEMMA_SIZES,
    sliding_window: z.int().positive().nullish().transform((value) => value ?? 4096),
    layer_types: z.array(z.enum(LAYER_TYPES)).nullish(),
    rope: z.object({
      rope_type: z.literal("default", "scaled positions are not supported").optional(),
      rope_theta: z.number().positive().default(ROPE_THETA),
    }),
    attention_bias: z.literal(false, "biases are not supported").default(false),
    attn_logit_softcapping: z.number().positive().nullable().default(SOFT_CAP),
    /** Ours: whether norms multiply by what their weights are above 1. */
    norms_from_one: z.boolean().default(true),
  }),
).superRefine(checkGemma).transform(({ rope: { rope_theta: theta }, layer_types, ...config }) => ({
  ...config,
  layer_types: layer_types ?? Array.from(
    { length: config.num_hidden_layers },
    (_, i): LayerType => i % 2 === 0 ? "sliding_attention" : "full_attention",
  ),
  rope: { full_attention: { theta, factor: 1 }, sliding_attention: { theta, factor: 1 } },
}));

type Gemma2Config = z.output<typeof GEMMA2_CONFIG>;

const SAMPLE = "layers.0.pre_feedforward_layernorm.weight";

export const GEMMA2_FORMAT: ComponentFormat = {
  name: "a Gemma 2 text encoder",
  component: "text_encoder",
  className: "Gemma2Model",
  architecture: "gemma2",
  namings: [
    { probes: [SAMPLE, "embed_tokens.weight"] },
    { probes: ["blk.0.post_ffw_norm.weight", "token_embd.weight"], layout: LLAMA_CPP_GEMMA3 },
  ],
  fits: (tensors) => tensors.find("layers.0.self_attn.q_norm.weight") === undefined,
  config,
};

function config(
  tensors: TensorSource,
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonObject {
  const stated = new Stated(tensors, metadata);
  stated.refuseScaledPositions();
  const headDim = stated.number("attention.key_length") ?? PUBLISHED_HEAD;
  return {
    ...languageConfig(tensors, "", headDim, stated),
    model_type: "gemma2",
    head_dim: headDim,
    query_pre_attn_scalar: headDim,
    sliding_window: stated.number("attention.sliding_window") ?? null,
    rope_theta: stated.number("rope.freq_base") ?? ROPE_THETA,
    attn_logit_softcapping: stated.number("attn_logit_softcapping") ?? SOFT_CAP,
    // llama.cpp adds the 1 when it converts a model.
    norms_from_one: !metadata?.has("general.architecture"),
  };
}

/** The states after a number of layers, numbered as transformers' `hidden_states`. */
export function gemma2TextEncoder(
  { config, weights }: TextEncoderParts<Gemma2Config>,
  padId: number,
  layer: number,
): TextEncoder {
  return {
    inputs: (prompts, rows) => ({ embeddings: f32(prompts, rows, config.hidden_size) }),
    trace: ({ embeddings }, graph) =>
      gemma3Encoder(graph, config, weights.root, embeddings!, layer)[layer]!,
    // What fills a prompt up is not seen by what comes before it.
    values: (tokens, rows) => ({
      embeddings: gemma3Embeddings(config, weights, padded(tokens, rows, padId).flat()),
    }),
  };
}
