/** Ovis-Image in single files. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX1_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  doubleStreamSizes,
  type FamilyFiles,
} from "../../checkpoints/component_format.ts";
import { QWEN3_FORMAT } from "../../text_encoders/qwen3.ts";
import { DIFFUSERS_OVIS_IMAGE, ORIGINAL_OVIS_IMAGE } from "./names.ts";

const TRANSFORMER: ComponentFormat = {
  name: "an Ovis-Image transformer",
  component: "transformer",
  className: "OvisImageTransformer2DModel",
  architecture: "flux",
  namings: [
    {
      probes: ["double_blocks.0.img_mlp.gate_proj.weight", "img_in.weight"],
      layout: ORIGINAL_OVIS_IMAGE,
    },
    {
      probes: ["context_embedder_norm.weight", "transformer_blocks.0.ff.net.0.proj.weight"],
      layout: DIFFUSERS_OVIS_IMAGE,
    },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: transformer/config.json of Ovis-Image-7B. */
function transformerConfig(tensors: TensorSource): JsonObject {
  return {
    _class_name: TRANSFORMER.className,
    ...doubleStreamSizes(tensors),
    axes_dims_rope: [16, 56, 56],
  };
}

/** Single files. */
export const OVIS_IMAGE_FILES: FamilyFiles = {
  formats: [TRANSFORMER, QWEN3_FORMAT, FLUX1_VAE_FORMAT],
  defaults: () => ({
    className: "OvisImagePipeline",
    settings: {},
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 3,
      use_dynamic_shifting: true,
      base_image_seq_len: 256,
      max_image_seq_len: 4096,
      base_shift: 0.5,
      max_shift: 1.15,
    },
    repositories: ["AIDC-AI/Ovis-Image-7B"],
  }),
};
