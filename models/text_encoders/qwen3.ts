/** Qwen3 as text encoder; `qwen.ts` computes it. Source: Qwen team 2025, "Qwen3 Technical Report"; transformers `Qwen3Model`. */
import { z } from "zod";
import type { JsonObject } from "../../hub/json_file.ts";
import type { GgufValue, TensorSource } from "../../runtime/mod.ts";
import { Stated } from "../checkpoints/stated.ts";
import {
  type ComponentFormat,
  countLayers,
  type FormatFile,
  shapeOf,
} from "../checkpoints/component_format.ts";
import { type Layout, renamed } from "../layouts.ts";

/** Base of the rotary frequencies where a file has none; transformers' default. */
const DEFAULT_ROPE_THETA = 10000;

const UNSCALED = z.literal("default", "scaled rotary positions are not supported");

/** Transformers 5 writes the type even where nothing is scaled. */
const ROPE_SCALING = z.union([
  z.object({ rope_type: UNSCALED }),
  z.object({ type: UNSCALED }),
], "scaled rotary positions are not supported");

const ROPE_PARAMETERS = z.object({
  rope_theta: z.number().positive().optional(),
  rope_type: UNSCALED.default("default"),
});

/** What `config.json` of the encoder may say; defaults are those of transformers' `Qwen3Config`. */
export const QWEN3_CONFIG = z.object({
  model_type: z.literal("qwen3").default("qwen3"),
  vocab_size: z.int().positive().default(151936),
  hidden_size: z.int().positive().default(4096),
  intermediate_size: z.int().positive().default(22016),
  num_hidden_layers: z.int().positive().default(32),
  num_attention_heads: z.int().positive().default(32),
  num_key_value_heads: z.int().positive().nullish(),
  head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  hidden_act: z.literal("silu").default("silu"),
  rms_norm_eps: z.number().positive().max(1).default(1e-6),
  /** Where transformers before 5 wrote the base of the frequencies. */
  rope_theta: z.number().positive().nullish(),
  rope_parameters: ROPE_PARAMETERS.nullish(),
  rope_scaling: ROPE_SCALING.nullish(),
  use_sliding_window: z.literal(false).default(false),
}).refine(
  ({ num_attention_heads: heads, num_key_value_heads: kvHeads }) =>
    heads % (kvHeads ?? heads) === 0,
  { path: ["num_key_value_heads"], message: "it must divide num_attention_heads" },
).transform(({ num_key_value_heads, rope_theta, rope_parameters, rope_scaling: _, ...config }) => ({
  ...config,
  num_key_value_heads: num_key_value_heads ?? config.num_attention_heads,
  rope_theta: rope_parameters?.rope_theta ?? rope_theta ?? DEFAULT_ROPE_THETA,
}));

export type Qwen3Config = z.output<typeof QWEN3_CONFIG>;

const LAYER = "layers.*";

/** Source: the tensor names of Qwen2-VL and Qwen3 in llama.cpp's `gguf-py/gguf/tensor_mapping.py`. */
export const LLAMA_CPP_QWEN: Layout = {
  name: "llama.cpp Qwen",
  prefixes: [],
  entries: [
    ["token_embd", "embed_tokens"],
    ["output_norm", "norm"],
    ["output", "lm_head"],
    ["blk.*.attn_norm", `${LAYER}.input_layernorm`],
    ["blk.*.attn_q_norm", `${LAYER}.self_attn.q_norm`],
    ["blk.*.attn_k_norm", `${LAYER}.self_attn.k_norm`],
    ...["q", "k", "v"].map((name) => [`blk.*.attn_${name}`, `${LAYER}.self_attn.${name}_proj`]),
    ["blk.*.attn_output", `${LAYER}.self_attn.o_proj`],
    ["blk.*.ffn_norm", `${LAYER}.post_attention_layernorm`],
    ...["gate", "up", "down"].map((name) => [`blk.*.ffn_${name}`, `${LAYER}.mlp.${name}_proj`]),
  ].map(([theirs, ours]) => renamed(theirs!, ours!)),
};

/** Qwen3 of any size in single files; `model.` of a whole language model counts as a prefix. */
export const QWEN3_FORMAT: ComponentFormat = {
  name: "a Qwen3 text encoder",
  component: "text_encoder",
  className: "Qwen3Model",
  architecture: "qwen3",
  namings: [
    { probes: ["layers.0.self_attn.q_norm.weight", "embed_tokens.weight"] },
    { probes: ["blk.0.attn_q_norm.weight", "token_embd.weight"], layout: LLAMA_CPP_QWEN },
  ],
  fits: (_, file) => !isQwen3Vl(file) && !isGemma(file),
  config,
};

/** Whether a file's language model, named like Qwen3's, is that of Qwen3-VL. */
export function isQwen3Vl({ metadata, names }: FormatFile): boolean {
  return metadata?.get("general.architecture") === "qwen3vl" ||
    [...names].some((name) => /language_model\.layers\.|visual\.deepstack_/.test(name));
}

/** Whether a file's language model is one of Gemma's, which name what others have alike, and have norms behind the feed-forward. */
export function isGemma({ names }: FormatFile): boolean {
  return [...names].some((name) => /(post_ffw_norm|pre_feedforward_layernorm)\./.test(name));
}

function config(
  tensors: TensorSource,
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonObject {
  const headDim = shapeOf(tensors, "layers.0.self_attn.q_norm.weight", 1)[0]!;
  const stated = new Stated(tensors, metadata);
  stated.refuseScaledPositions();
  return {
    model_type: "qwen3",
    head_dim: headDim,
    ...languageConfig(tensors, "", headDim, stated),
  };
}

export function languageConfig(
  tensors: TensorSource,
  wrapper: string,
  headDim: number,
  stated: Stated,
): JsonObject {
  const table = `${wrapper}embed_tokens.weight`;
  const [vocabSize, hiddenSize] = shapeOf(tensors, table, 2) as [number, number];
  shapeOf(tensors, `${wrapper}norm.weight`, 1);
  const rows = (name: string) => shapeOf(tensors, `${wrapper}layers.0.${name}.weight`, 2)[0]!;
  const [layers, width] = [countLayers(tensors, `${wrapper}layers.`), rows("mlp.gate_proj")];
  const [heads, keyHeads] = [
    rows("self_attn.q_proj") / headDim,
    rows("self_attn.k_proj") / headDim,
  ];
  stated.check({
    block_count: layers,
    embedding_length: hiddenSize,
    feed_forward_length: width,
    "attention.head_count": heads,
    "attention.head_count_kv": keyHeads,
    "attention.key_length": headDim,
  });
  return {
    vocab_size: vocabSize,
    hidden_size: hiddenSize,
    intermediate_size: width,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: keyHeads,
    // Source: config.json of the published checkpoints of all sizes.
    rms_norm_eps: stated.number("attention.layer_norm_rms_epsilon") ?? 1e-6,
    rope_theta: stated.number("rope.freq_base") ?? 1e6,
  };
}
