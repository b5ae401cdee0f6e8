/** CLIP's vision tower in single files, which have the names of transformers, as ComfyUI has them. */
import type { JsonObject } from "../../hub/json_file.ts";
import type { TensorSource } from "../../runtime/mod.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";

/** Head size of CLIP's large towers; narrower ones have heads of 64. */
const LARGE_HEAD_DIM = 80;
const LARGE_DIM = 1280;
const SMALL_HEAD_DIM = 64;

const CLASS_EMBEDDING = "embeddings.class_embedding";

/** CLIP's vision tower in single files. */
export const CLIP_VISION_FORMAT: ComponentFormat = {
  name: "a CLIP image encoder",
  component: "image_encoder",
  className: "CLIPVisionModel",
  namings: [{ probes: [CLASS_EMBEDDING, "encoder.layers.0.self_attn.q_proj.weight"] }],
  config,
};

function config(tensors: TensorSource): JsonObject {
  const [dim] = shapeOf(tensors, CLASS_EMBEDDING, 1) as [number];
  const [, , patch] = shapeOf(tensors, "embeddings.patch_embedding.weight", 4) as number[];
  const [positions] = shapeOf(tensors, "embeddings.position_embedding.weight", 2) as [number];
  const headDim = dim % LARGE_DIM === 0 ? LARGE_HEAD_DIM : SMALL_HEAD_DIM;
  return {
    model_type: "clip_vision_model",
    hidden_size: dim,
    intermediate_size: shapeOf(tensors, "encoder.layers.0.mlp.fc1.weight", 2)[0]!,
    num_hidden_layers: countLayers(tensors, "encoder.layers."),
    num_attention_heads: Math.max(1, dim / headDim),
    image_size: Math.sqrt(positions - 1) * patch!,
    patch_size: patch!,
    // OpenCLIP's towers; OpenAI's have quick_gelu, and no video model takes them.
    hidden_act: "gelu",
  };
}
