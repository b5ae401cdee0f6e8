/** CLIP's text tower in single files, which have the names of transformers, as ComfyUI has them. */
import type { JsonObject } from "../../hub/json_file.ts";
import type { TensorSource } from "../../runtime/mod.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";

/** Width of the heads of every tower. */
const HEAD_DIM = 64;
/** Width of OpenAI's large tower; those of OpenCLIP are wider, and have another activation. */
const LARGE_DIM = 768;

const TOKEN_EMBEDDING = "embeddings.token_embedding.weight";

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
