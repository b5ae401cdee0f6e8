/** What `config.json` of Gemma 3 may say, and how its files are known. Source: transformers `Gemma3TextConfig`. */
import { z } from "zod";
import { isObject, type JsonObject } from "../../hub/json_file.ts";
import type { GgufValue, TensorSource } from "../../runtime/mod.ts";
import { type ComponentFormat, shapeOf } from "../checkpoints/component_format.ts";
import { Stated } from "../checkpoints/stated.ts";
import { refuse } from "../config.ts";
import { type Layout, renamed } from "../layouts.ts";
import { languageConfig, LLAMA_CPP_QWEN } from "./qwen3.ts";

/** With a vision tower, which nothing here looks through, or without. */
export const GEMMA3_CLASSES = [
  "Gemma3ForConditionalGeneration",
  "Gemma3Model",
  "Gemma3ForCausalLM",
  "Gemma3TextModel",
] as const;

/** Of how many layers the last sees the whole text, where a file does not say. */
const PATTERN = 6;

const THETAS = { full_attention: 1e6, sliding_attention: 1e4 } as const;
type LayerType = keyof typeof THETAS;
const LAYER_TYPES = Object.keys(THETAS) as LayerType[];

/** What the published models of 4 billion parameters and more have, which files need not state. */
const PUBLISHED_FACTOR = 8;

const ROPE = z.object({
  rope_type: z.enum(["default", "linear"], "only linearly scaled positions are supported"),
  rope_theta: z.number().positive(),
  factor: z.number().positive().optional(),
});

/** Sizes of Gemma 2 and 3 alike. */
export const GEMMA_SIZES = {
  hidden_size: z.int().positive().default(2304),
  intermediate_size: z.int().positive().default(9216),
  num_hidden_layers: z.int().positive().max(1024).default(26),
  num_attention_heads: z.int().positive().default(8),
  num_key_value_heads: z.int().positive().default(4),
  head_dim: z.int().positive().multipleOf(4).default(256),
  hidden_activation: z.literal("gelu_pytorch_tanh").default("gelu_pytorch_tanh"),
  rms_norm_eps: z.number().positive().max(1).default(1e-6),
  query_pre_attn_scalar: z.number().positive().default(256),
};

export function checkGemma(
  config: {
    readonly num_hidden_layers: number;
    readonly num_attention_heads: number;
    readonly num_key_value_heads: number;
    readonly layer_types?: readonly string[] | null | undefined;
  },
  context: z.RefinementCtx,
): void {
  const { num_hidden_layers: count, layer_types: types } = config;
  if (config.num_attention_heads % config.num_key_value_heads !== 0) {
    refuse(context, "num_key_value_heads", "it must divide num_attention_heads");
  }
  if (types && types.length !== count) {
    refuse(
      context,
      "layer_types",
      `it must name all ${count} layers, and it names ${types.length}`,
    );
  }
}

/** `config.json`: the language model, flat or in `text_config`. */
export const GEMMA3_CONFIG = z.preprocess(
  (json) => {
    if (!isObject(json)) return json;
    const text = isObject(json["text_config"]) ? json["text_config"] : json;
    return { ...text, rope_parameters: ropeParameters(text) };
  },
  z.object({
    model_type: z.literal("gemma3_text").default("gemma3_text"),
    vocab_size: z.int().positive().default(262208),
    ...GEMMA_SIZES,
    sliding_window: z.int().positive().nullish(),
    sliding_window_pattern: z.int().positive().default(PATTERN),
    layer_types: z.array(z.enum(LAYER_TYPES)).nullish(),
    rope_parameters: z.object({ full_attention: ROPE, sliding_attention: ROPE }),
    attention_bias: z.literal(false, "biases are not supported").default(false),
    attn_logit_softcapping: z.null("capped logits are not supported").optional(),
    use_bidirectional_attention: z.literal(false, "only causal attention is supported")
      .nullish(),
    /** Ours: whether norms multiply by what their weights are above 1. */
    norms_from_one: z.boolean().default(true),
  }),
).superRefine(checkGemma).transform((
  { rope_parameters, layer_types, sliding_window, ...config },
) => ({
  ...config,
  sliding_window: sliding_window ?? 4096,
  layer_types: layer_types ?? Array.from(
    { length: config.num_hidden_layers },
    (_, i): LayerType =>
      (i + 1) % config.sliding_window_pattern === 0 ? "full_attention" : "sliding_attention",
  ),
  rope: {
    full_attention: scaled(rope_parameters.full_attention),
    sliding_attention: scaled(rope_parameters.sliding_attention),
  },
}));

export type Gemma3Config = z.output<typeof GEMMA3_CONFIG>;

/** As transformers 5 writes it; older versions have the bases beside a scaling that is of the layers that see all. */
function ropeParameters(text: Record<string, unknown>): Record<string, unknown> {
  const { rope_parameters: said, rope_scaling, rope_theta, rope_local_base_freq } = text;
  const bases = { full_attention: rope_theta, sliding_attention: rope_local_base_freq };
  return Object.fromEntries(LAYER_TYPES.map((type) => {
    const own = isObject(said) && isObject(said[type]) ? said[type] : {};
    const scaling = type === "full_attention" && isObject(rope_scaling) ? rope_scaling : {};
    const { type: kind, ...rest } = scaling;
    return [type, {
      rope_type: typeof kind === "string" ? kind : "default",
      rope_theta: bases[type] ?? THETAS[type],
      ...rest,
      ...own,
    }];
  }));
}

function scaled({ rope_type, rope_theta, factor = 1 }: z.output<typeof ROPE>) {
  return { theta: rope_theta, factor: rope_type === "linear" ? factor : 1 };
}

/** Source: the tensor names of Gemma 3 in llama.cpp's `gguf-py/gguf/tensor_mapping.py`. */
export const LLAMA_CPP_GEMMA3: Layout = {
  name: "llama.cpp Gemma 3",
  prefixes: [],
  entries: [
    ...LLAMA_CPP_QWEN.entries.filter(({ theirs }) => theirs !== "blk.*.ffn_norm"),
    renamed("blk.*.post_attention_norm", "layers.*.post_attention_layernorm"),
    renamed("blk.*.ffn_norm", "layers.*.pre_feedforward_layernorm"),
    renamed("blk.*.post_ffw_norm", "layers.*.post_feedforward_layernorm"),
  ],
};

const SAMPLES = ["layers.0.self_attn.q_norm.weight", "layers.0.pre_feedforward_layernorm.weight"];
const WRAPPERS = [
  "model.language_model.",
  "language_model.model.",
  "language_model.",
  "model.",
  "",
];

export const GEMMA3_FORMAT: ComponentFormat = {
  name: "a Gemma 3 text encoder",
  component: "text_encoder",
  className: GEMMA3_CLASSES[0],
  architecture: "gemma3",
  namings: [
    ...WRAPPERS.map((wrapper) => ({ probes: SAMPLES.map((name) => wrapper + name) })),
    {
      probes: ["blk.0.attn_q_norm.weight", "blk.0.post_ffw_norm.weight"],
      layout: LLAMA_CPP_GEMMA3,
    },
  ],
  config,
};

function config(
  tensors: TensorSource,
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonObject {
  const wrapper = WRAPPERS.find((prefix) => tensors.find(prefix + SAMPLES[0]!) !== undefined)!;
  const [headDim] = shapeOf(tensors, wrapper + SAMPLES[0]!, 1) as [number];
  const stated = new Stated(tensors, metadata);
  const { rope_theta: _, ...sizes } = languageConfig(tensors, wrapper, headDim, stated);
  return {
    ...sizes,
    model_type: "gemma3_text",
    head_dim: headDim,
    query_pre_attn_scalar: headDim,
    sliding_window: stated.number("attention.sliding_window") ?? 1024,
    rope_theta: stated.number("rope.freq_base") ?? THETAS.full_attention,
    rope_scaling: {
      rope_type: "linear",
      factor: stated.number("rope.scaling.factor") ?? PUBLISHED_FACTOR,
    },
    // llama.cpp adds the 1 when it converts a model.
    norms_from_one: !metadata?.has("general.architecture"),
  };
}
