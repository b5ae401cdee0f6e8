/** Qwen3 in single files: those of ComfyUI have the names of transformers, GGUF those of llama.cpp. */
import type { JsonObject } from "../../hub/json_file.ts";
import type { TensorSource } from "../../runtime/mod.ts";
import { type ComponentFormat, countModules, shapeOf } from "../checkpoints/component_format.ts";
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
  namings: [
    { probes: ["layers.0.self_attn.q_norm.weight", "embed_tokens.weight"] },
    { probes: ["blk.0.attn_q_norm.weight", "token_embd.weight"], layout: LLAMA_CPP_QWEN },
  ],
  config,
};

function config(tensors: TensorSource): JsonObject {
  const [vocabSize, hiddenSize] = shapeOf(tensors, "embed_tokens.weight", 2) as [number, number];
  const rows = (name: string) => shapeOf(tensors, `layers.0.${name}.weight`, 2)[0]!;
  const headDim = shapeOf(tensors, "layers.0.self_attn.q_norm.weight", 1)[0]!;
  return {
    model_type: "qwen3",
    vocab_size: vocabSize,
    hidden_size: hiddenSize,
    intermediate_size: rows("mlp.gate_proj"),
    num_hidden_layers: countModules(tensors, "layers."),
    num_attention_heads: rows("self_attn.q_proj") / headDim,
    num_key_value_heads: rows("self_attn.k_proj") / headDim,
    head_dim: headDim,
    // Source: config.json of the published checkpoints of all sizes.
    rms_norm_eps: 1e-6,
    rope_theta: 1e6,
  };
}
