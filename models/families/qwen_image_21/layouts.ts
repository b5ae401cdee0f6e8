/** Qwen-Image-2.1 in single files, which have the names of diffusers. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { QWEN_IMAGE_21_VAE_FORMAT } from "../../autoencoders/wan/format.ts";
import {
  type ComponentFormat,
  countLayers,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { QWEN3_MMPROJ_FORMAT } from "../../image_encoders/mmproj_format.ts";
import { QWEN3_VL_FORMAT } from "../../text_encoders/qwen3_vl.ts";

const TRANSFORMER: ComponentFormat = {
  name: "a Qwen-Image-2.1 transformer",
  component: "transformer",
  className: "QwenImage21Transformer2DModel",
  architecture: "qwen_image",
  namings: [{ probes: ["txt_in.text_norm.weight", "transformer_blocks.0.img_mlp.proj.weight"] }],
  config: transformerConfig,
};

/** Source of what shapes do not tell: the defaults of diffusers, which the published model has. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const [dim, channels] = shapeOf(tensors, "img_in.weight", 2) as [number, number];
  const headDim = shapeOf(tensors, "transformer_blocks.0.attn.norm_q.weight", 1)[0]!;
  const hidden = shapeOf(tensors, "transformer_blocks.0.img_mlp.proj.weight", 2)[0]!;
  return {
    _class_name: TRANSFORMER.className,
    in_channels: channels,
    num_layers: countLayers(tensors, "transformer_blocks."),
    attention_head_dim: headDim,
    num_attention_heads: dim / headDim,
    context_in_dim: shapeOf(tensors, "txt_in.text_norm.weight", 1)[0]!,
    mlp_ratio: hidden / dim,
  };
}

export const QWEN_IMAGE_21_FILES: FamilyFiles = {
  formats: [TRANSFORMER, QWEN3_VL_FORMAT, QWEN3_MMPROJ_FORMAT, QWEN_IMAGE_21_VAE_FORMAT],
  // Without one it makes images from text alone.
  seeingClasses: ["QwenImage21Pipeline"],
  defaults: () => ({
    className: "QwenImage21Pipeline",
    settings: {},
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 1,
      time_shift_type: "exponential",
      use_dynamic_shifting: true,
      base_shift: 0.5,
      max_shift: 1.15,
      base_image_seq_len: 256,
      max_image_seq_len: 4096,
    },
    repositories: ["Qwen/Qwen-Image-2.1"],
  }),
};
