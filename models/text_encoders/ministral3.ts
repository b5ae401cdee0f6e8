/**
 * Ministral 3 and Mistral Small 3 as text encoders; `qwen.ts` computes them. YaRN changes the frequencies of the former, whatever
 * the length of the text.
 * Source: Mistral AI 2025, Ministral 3 and Mistral Small 3.2; transformers `Ministral3Model` and `MistralModel`; Peng et al. 2023,
 * "YaRN".
 */
import { z } from "zod";
import { isObject, type JsonObject } from "../../hub/json_file.ts";
import type { GgufValue, TensorSource } from "../../runtime/mod.ts";
import { type ComponentFormat, type FormatFile, shapeOf } from "../checkpoints/component_format.ts";
import { Stated } from "../checkpoints/stated.ts";
import { refuse } from "../config.ts";
import type { Tokenizer } from "../tokenizers/mod.ts";
import { isGemma, languageConfig, LLAMA_CPP_QWEN } from "./qwen3.ts";

/** With a vision tower, which nothing here looks through, or without. */
export const MINISTRAL3_CLASSES = [
  "Mistral3Model",
  "Mistral3ForConditionalGeneration",
  "Ministral3Model",
  "Ministral3ForCausalLM",
] as const;

export const MISTRAL_SMALL_CLASSES = [
  ...["Mistral3ForConditionalGeneration", "Mistral3Model"] as const,
  ...["MistralModel", "MistralForCausalLM"] as const,
] as const;

const ROPE = z.object({
  rope_type: z.enum(["yarn", "default"], "only YaRN's scaled positions are supported"),
  rope_theta: z.number().positive().default(1e6),
  factor: z.number().min(1).default(16),
  original_max_position_embeddings: z.int().positive().default(16384),
  beta_fast: z.number().positive().nullish().transform((value) => value ?? 32),
  beta_slow: z.number().positive().nullish().transform((value) => value ?? 1),
  mscale: z.number().nullish(),
  mscale_all_dim: z.number().nullish(),
  truncate: z.literal(true).default(true),
}).superRefine(({ rope_type, mscale, mscale_all_dim }, context) => {
  if (rope_type === "default" || mscale && mscale === mscale_all_dim) return;
  refuse(context, "mscale", "positions that are stretched, too, are not supported");
});

/** The positions of the published models, which files of their own need not state. */
const PUBLISHED_ROPE = { rope_type: "yarn", mscale: 1, mscale_all_dim: 1 };
const MISTRAL_SMALL_ROPE = { rope_type: "default", rope_theta: 1e9 };

/** Whether a `config.json` is that of one of Mistral's models. */
export function isMistral(json: unknown): boolean {
  if (!isObject(json)) return false;
  const types = [
    json["model_type"],
    isObject(json["text_config"]) && json["text_config"]["model_type"],
  ];
  return types.some((type) => typeof type === "string" && type.includes("mistral"));
}

/** `config.json`: the language model, flat or in `text_config`; defaults are those of transformers' `Ministral3Config`. */
export const MINISTRAL3_CONFIG = z.preprocess(
  (json) => {
    if (!isObject(json)) return json;
    const text = isObject(json["text_config"]) ? json["text_config"] : json;
    const { rope_theta, rope_scaling, rope_parameters } = text;
    const said = rope_parameters ?? rope_scaling;
    const isSmall = text["model_type"] === "mistral";
    const { type, ...rope } = isObject(said)
      ? said
      : isSmall
      ? { ...MISTRAL_SMALL_ROPE, rope_theta: rope_theta ?? MISTRAL_SMALL_ROPE.rope_theta }
      : PUBLISHED_ROPE as JsonObject;
    return {
      ...text,
      rope_parameters: {
        ...rope_theta !== undefined && { rope_theta },
        ...type !== undefined && { rope_type: type },
        ...rope,
      },
    };
  },
  z.object({
    model_type: z.enum(["ministral3", "mistral"]).default("ministral3"),
    vocab_size: z.int().positive().default(131072),
    hidden_size: z.int().positive().default(4096),
    intermediate_size: z.int().positive().default(14336),
    num_hidden_layers: z.int().positive().max(1024).default(34),
    num_attention_heads: z.int().positive().default(32),
    num_key_value_heads: z.int().positive().default(8),
    head_dim: z.int().positive().multipleOf(4).max(128).default(128),
    hidden_act: z.literal("silu").default("silu"),
    rms_norm_eps: z.number().positive().max(1).default(1e-5),
    sliding_window: z.null("windows are not supported").optional(),
    rope_parameters: ROPE,
    /** Ours: which elements of a head make a pair. */
    rope_style: z.enum(["half", "interleaved"]).default("half"),
  }),
).transform(({ rope_parameters: rope, ...config }) => ({
  ...config,
  rope_theta: rope.rope_theta,
  frequencies: rope.rope_type === "yarn" ? yarnFrequencies(config.head_dim, rope) : undefined,
}));

export type Ministral3Config = z.output<typeof MINISTRAL3_CONFIG>;

/** Slow pairs turn slower by the factor, fast ones do not, and those between in part. */
function yarnFrequencies(dim: number, rope: z.output<typeof ROPE>): number[] {
  const { rope_theta: base, factor, original_max_position_embeddings: length } = rope;
  // The pair that turns so often over the length that the model was trained with first.
  const pairOf = (turns: number) =>
    dim * Math.log(length / (turns * 2 * Math.PI)) / (2 * Math.log(base));
  const low = Math.max(Math.floor(pairOf(rope.beta_fast)), 0);
  const high = Math.min(Math.ceil(pairOf(rope.beta_slow)), dim - 1);
  const width = Math.max(high - low, 0.001);
  return Array.from({ length: dim / 2 }, (_, j) => {
    const share = Math.min(Math.max((j - low) / width, 0), 1);
    return base ** (-2 * j / dim) * (1 - share + share / factor);
  });
}

const HEAD_DIM = 128;

/** Ministral 3 of any size in single files, with or without its vision tower. */
export const MINISTRAL3_FORMAT: ComponentFormat = {
  name: "a Ministral 3 text encoder",
  component: "text_encoder",
  className: "Ministral3Model",
  architecture: "mistral3",
  namings: [
    { probes: ["layers.0.self_attn.q_proj.weight", "embed_tokens.weight"] },
    { probes: ["blk.0.attn_q.weight", "token_embd.weight"], layout: LLAMA_CPP_QWEN },
  ],
  fits: (tensors, file) => isPlain(tensors, file) && !isSmall(tensors),
  config,
};

/** Mistral Small 3 in single files. */
export const MISTRAL_SMALL_FORMAT: ComponentFormat = {
  ...MINISTRAL3_FORMAT,
  name: "a Mistral Small text encoder",
  className: "MistralModel",
  architecture: "llama",
  fits: (tensors, file) => isPlain(tensors, file) && isSmall(tensors),
  config: (tensors, metadata) => {
    const { rope_parameters: _, ...sizes } = config(tensors, metadata);
    const stated = new Stated(tensors, metadata);
    stated.refuseScaledPositions();
    const rope_theta = stated.number("rope.freq_base") ?? MISTRAL_SMALL_ROPE.rope_theta;
    return {
      ...sizes,
      model_type: "mistral",
      rope_parameters: { ...MISTRAL_SMALL_ROPE, rope_theta },
    };
  },
};

/** Qwen's have one of these tensors. */
function isPlain(tensors: TensorSource, file: FormatFile): boolean {
  return !isGemma(file) && !["q_norm.weight", "q_proj.bias"]
    .some((name) => tensors.find(`layers.0.self_attn.${name}`));
}

/** Its feed-forward is the widest of all sizes, as a multiple of the model's width. */
function isSmall(tensors: TensorSource): boolean {
  const [hidden, width] = shapeOf(tensors, "layers.0.mlp.gate_proj.weight", 2) as [number, number];
  return hidden > 4 * width;
}

/** Refuses tokenizers that begin no text with a token, as Mistral's do. */
export function requireMistral(tokenizer: Tokenizer, path: string): void {
  if (tokenizer.encode("").length > 0) return;
  throw new SyntaxError(
    `Cannot use "${path}": its tokenizer begins no text with a token, as Mistral's do; ` +
      "name that of the model with --tokenizer",
  );
}

function config(
  tensors: TensorSource,
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonObject {
  const stated = new Stated(tensors, metadata);
  const heads = stated.number("attention.head_count");
  const [queries] = shapeOf(tensors, "layers.0.self_attn.q_proj.weight", 2) as [number];
  const { rms_norm_eps: _, rope_theta, ...sizes } = languageConfig(
    ...[tensors, "", heads ? queries / heads : HEAD_DIM, stated] as const,
  );
  const yarn = {
    factor: stated.number("rope.scaling.factor"),
    original_max_position_embeddings: stated.number("rope.scaling.original_context_length"),
    beta_fast: stated.number("rope.scaling.yarn_beta_fast"),
    beta_slow: stated.number("rope.scaling.yarn_beta_slow"),
  };
  return {
    ...sizes,
    model_type: "ministral3",
    head_dim: heads ? queries / heads : HEAD_DIM,
    rms_norm_eps: stated.number("attention.layer_norm_rms_epsilon") ?? 1e-5,
    rope_parameters: {
      ...PUBLISHED_ROPE,
      rope_theta: rope_theta!,
      ...Object.fromEntries(
        Object.entries(yarn).filter(([, value]) => value !== undefined),
      ) as JsonObject,
    },
    // llama.cpp moves the rows of queries and keys so that neighbours make a pair.
    rope_style: metadata?.has("general.architecture") ? "interleaved" : "half",
  };
}
