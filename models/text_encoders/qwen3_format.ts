/** Qwen3 in single files: those of ComfyUI have the names of transformers, GGUF those of llama.cpp. */
import type { JsonObject } from "../../hub/json_file.ts";
import type { GgufValue, TensorSource } from "../../runtime/mod.ts";
import { Stated } from "../checkpoints/stated.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";
import type { Layout } from "../layouts.ts";

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
  ].map(([theirs, ours]) => ({ theirs: theirs!, ours: [ours!] })),
};

/**
 * Qwen3 of any size in single files; what stands before the names of the whole language model (`model.`) counts as a
 * prefix.
 */
export const QWEN3_FORMAT: ComponentFormat = {
  name: "a Qwen3 text encoder",
  component: "text_encoder",
  className: "Qwen3Model",
  architecture: "qwen3",
  namings: [
    { probes: ["layers.0.self_attn.q_norm.weight", "embed_tokens.weight"] },
    { probes: ["blk.0.attn_q_norm.weight", "token_embd.weight"], layout: LLAMA_CPP_QWEN },
  ],
  config,
};

function config(
  tensors: TensorSource,
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonObject {
  const headDim = shapeOf(tensors, "layers.0.self_attn.q_norm.weight", 1)[0]!;
  return {
    model_type: "qwen3",
    head_dim: headDim,
    ...languageConfig(tensors, "", headDim, new Stated(tensors, metadata)),
  };
}

/** What Qwen's language models have in common. */
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
  stated.refuseScaledPositions();
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
