/**
 * T5 v1.1's encoder: UMT5's, but that all layers have the position bias of the first.
 * Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer".
 */
import { z } from "zod";
import { f32, type GgufValue, type TensorSource, u32 } from "../../runtime/mod.ts";
import { padded, type TextEncoder, type TextEncoderParts } from "./text_encoder.ts";
import { FAR_ENOUGH, isFarEnough, T5_FIELDS, umt5Embeddings, umt5Encoder } from "./umt5.ts";
import type { JsonObject } from "../../hub/json_file.ts";
import { Stated } from "../checkpoints/stated.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";
import { type Layout, renamed } from "../layouts.ts";

/** What `config.json` of the encoder may say; defaults are those of transformers' `T5Config`. */
export const T5_CONFIG = z.object({
  ...T5_FIELDS,
  model_type: z.literal("t5").default("t5"),
  vocab_size: z.int().positive().default(32128),
  d_ff: z.int().positive().default(2048),
  num_layers: z.int().positive().default(6),
  num_heads: z.int().positive().default(8),
  feed_forward_proj: z.literal("gated-gelu", "only T5 v1.1 (gated-gelu) is supported"),
}).refine(isFarEnough, FAR_ENOUGH);

export function t5TextEncoder(
  { config, weights }: TextEncoderParts<z.output<typeof T5_CONFIG>>,
  padId: number,
  { seesPadding }: { readonly seesPadding: boolean },
): TextEncoder {
  return {
    inputs: (prompts, rows) => ({
      embeddings: f32(prompts, rows, config.d_model),
      ...!seesPadding && { lengths: u32(prompts) },
    }),
    trace: ({ embeddings, lengths }, graph) =>
      umt5Encoder(graph, config, weights.root, {
        embeddings: embeddings!,
        ...(lengths && { lengths }),
      }),
    values: (tokens, rows) => {
      const ids = padded(tokens, rows, padId).flat();
      return {
        embeddings: umt5Embeddings(config, weights, ids),
        ...!seesPadding && { lengths: tokens.map(({ length }) => length) },
      };
    },
  };
}

const ATTENTION = "encoder.block.*.layer.0";
const FEED_FORWARD = "encoder.block.*.layer.1";

/** Source: the tensor names of T5 encoders in llama.cpp's `gguf-py/gguf/tensor_mapping.py`. */
const LLAMA_CPP: Layout = {
  name: "llama.cpp T5",
  prefixes: [],
  entries: [
    ["token_embd", "shared"],
    ["enc.blk.*.attn_norm", `${ATTENTION}.layer_norm`],
    ...["q", "k", "v", "o"].map((name) => [
      `enc.blk.*.attn_${name}`,
      `${ATTENTION}.SelfAttention.${name}`,
    ]),
    ["enc.blk.*.attn_rel_b", `${ATTENTION}.SelfAttention.relative_attention_bias`],
    ["enc.blk.*.ffn_norm", `${FEED_FORWARD}.layer_norm`],
    ["enc.blk.*.ffn_gate", `${FEED_FORWARD}.DenseReluDense.wi_0`],
    ["enc.blk.*.ffn_up", `${FEED_FORWARD}.DenseReluDense.wi_1`],
    ["enc.blk.*.ffn_down", `${FEED_FORWARD}.DenseReluDense.wo`],
    ["enc.output_norm", "encoder.final_layer_norm"],
  ].map(([theirs, ours]) => renamed(theirs!, ours!)),
};

const RELATIVE_BIAS = "layer.0.SelfAttention.relative_attention_bias.weight";

/** UMT5 in single files: unlike in T5, every layer has its own bias of positions. */
export const UMT5_FORMAT: ComponentFormat = {
  name: "a UMT5 text encoder",
  component: "text_encoder",
  className: "UMT5EncoderModel",
  architecture: "t5encoder",
  namings: [
    { probes: [`encoder.block.0.${RELATIVE_BIAS}`, `encoder.block.1.${RELATIVE_BIAS}`] },
    {
      probes: ["enc.blk.0.attn_rel_b.weight", "enc.blk.1.attn_rel_b.weight"],
      layout: LLAMA_CPP,
    },
  ],
  config: (tensors, metadata) => config(tensors, "umt5", metadata),
};

/** T5 v1.1 in single files, whose layers share the first one's bias. */
export const T5_FORMAT: ComponentFormat = {
  name: "a T5 text encoder",
  component: "text_encoder_2",
  className: "T5EncoderModel",
  architecture: "t5encoder",
  namings: [
    { probes: [`encoder.block.0.${RELATIVE_BIAS}`] },
    { probes: ["enc.blk.0.attn_rel_b.weight"], layout: LLAMA_CPP },
  ],
  fits: (tensors) => tensors.find(`encoder.block.1.${RELATIVE_BIAS}`) === undefined,
  config: (tensors, metadata) => config(tensors, "t5", metadata),
};

const EMBEDDINGS = ["shared.weight", "encoder.embed_tokens.weight"];

function config(
  tensors: TensorSource,
  type: "t5" | "umt5",
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonObject {
  const embeddings = EMBEDDINGS.find((name) => tensors.find(name)) ?? EMBEDDINGS[0]!;
  const [vocabSize, dim] = shapeOf(tensors, embeddings, 2) as [number, number];
  const [buckets, heads] = shapeOf(tensors, `encoder.block.0.${RELATIVE_BIAS}`, 2) as [
    number,
    number,
  ];
  shapeOf(tensors, "encoder.final_layer_norm.weight", 1);
  const layer = "encoder.block.0.layer";
  const headDim = shapeOf(tensors, `${layer}.0.SelfAttention.q.weight`, 2)[0]! / heads;
  const width = shapeOf(tensors, `${layer}.1.DenseReluDense.wi_0.weight`, 2)[0]!;
  const layers = countLayers(tensors, "encoder.block.", type === "t5" ? RELATIVE_BIAS : undefined);
  const stated = new Stated(tensors, metadata);
  stated.check({
    block_count: layers,
    embedding_length: dim,
    feed_forward_length: width,
    "attention.head_count": heads,
    "attention.key_length": headDim,
    "attention.relative_buckets_count": buckets,
  });
  return {
    model_type: type,
    vocab_size: vocabSize,
    d_model: dim,
    d_kv: headDim,
    d_ff: width,
    num_layers: layers,
    num_heads: heads,
    relative_attention_num_buckets: buckets,
    layer_norm_epsilon: stated.number("attention.layer_norm_rms_epsilon") ?? 1e-6,
    feed_forward_proj: "gated-gelu",
  };
}
