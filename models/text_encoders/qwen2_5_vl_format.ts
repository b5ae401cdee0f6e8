/** Qwen2.5-VL in single files: those of ComfyUI have the names of transformers, GGUF those of llama.cpp. */
import type { JsonObject } from "../../hub/json_file.ts";
import type { TensorSource } from "../../runtime/mod.ts";
import { type ComponentFormat, countModules, shapeOf } from "../checkpoints/component_format.ts";
import { LLAMA_CPP_QWEN } from "./qwen3_format.ts";

/** The language model, of any size. */
export const QWEN2_5_VL_FORMAT: ComponentFormat = {
  name: "a Qwen2.5-VL text encoder",
  component: "text_encoder",
  className: "Qwen2_5_VLForConditionalGeneration",
  namings: [
    { probes: ["layers.0.self_attn.q_proj.bias", "embed_tokens.weight"] },
    { probes: ["blk.0.attn_q.bias", "token_embd.weight"], layout: LLAMA_CPP_QWEN },
  ],
  config,
};

/** Width of the heads of all published models. */
const HEAD_DIM = 128;

function config(tensors: TensorSource): JsonObject {
  const [vocabSize, hiddenSize] = shapeOf(tensors, "embed_tokens.weight", 2) as [number, number];
  const rows = (name: string) => shapeOf(tensors, `layers.0.${name}.weight`, 2)[0]!;
  return {
    vocab_size: vocabSize,
    hidden_size: hiddenSize,
    intermediate_size: rows("mlp.gate_proj"),
    num_hidden_layers: countModules(tensors, "layers."),
    num_attention_heads: rows("self_attn.q_proj") / HEAD_DIM,
    num_key_value_heads: rows("self_attn.k_proj") / HEAD_DIM,
    // Source: config.json of the published checkpoints of all sizes.
    rms_norm_eps: 1e-6,
    rope_theta: 1e6,
  };
}
