/** Ideogram 4 in single files. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX2_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { QWEN3_VL_FORMAT } from "../../text_encoders/qwen3_vl.ts";
import { ORIGINAL_IDEOGRAM4 } from "./names.ts";

const TRANSFORMER: ComponentFormat = {
  name: "an Ideogram 4 transformer",
  component: "transformer",
  className: "Ideogram4Transformer2DModel",
  architecture: "ideogram4",
  namings: [
    {
      probes: ["embed_image_indicator.weight", "layers.0.attention.qkv.weight"],
      layout: ORIGINAL_IDEOGRAM4,
    },
    { probes: ["embed_image_indicator.weight", "layers.0.attention.to_q.weight"] },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: the defaults of diffusers, which the published model has. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const shape = (name: string) => shapeOf(tensors, `${name}.weight`, 2) as [number, number];
  const [dim, channels] = shape("input_proj");
  const [headDim] = shapeOf(tensors, "layers.0.attention.norm_q.weight", 1) as [number];
  return {
    _class_name: TRANSFORMER.className,
    in_channels: channels,
    num_layers: countModules(tensors, "layers."),
    attention_head_dim: headDim,
    num_attention_heads: dim / headDim,
    intermediate_size: shape("layers.0.feed_forward.w1")[0],
    adaln_dim: shape("adaln_proj")[0],
    llm_features_dim: shape("llm_cond_proj")[1],
  };
}

export const IDEOGRAM4_FILES: FamilyFiles = {
  formats: [TRANSFORMER, QWEN3_VL_FORMAT, FLUX2_VAE_FORMAT],
  defaults: () => ({
    className: "Ideogram4Pipeline",
    settings: {},
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 1,
    },
    repositories: ["ideogram-ai/ideogram-4-fp8"],
  }),
};
