/** LongCat-Image in single files, which have FLUX.1's names: those that ComfyUI and GGUF files keep. */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX1_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  doubleStreamSizes,
  type FamilyFiles,
} from "../../checkpoints/component_format.ts";
import { type Layout, renamed } from "../../layouts.ts";
import { QWEN2_5_VL_FORMAT } from "../../text_encoders/qwen2_5_vl.ts";
import { EDIT_CLASS } from "./config.ts";
import { FLUX1_HEAD_NORMS, ORIGINAL_FLUX1 } from "../flux1/layouts.ts";

const EMBEDDER = "time_embed.timestep_embedder";

export const ORIGINAL_LONGCAT_IMAGE: Layout = {
  name: "original LongCat-Image",
  prefixes: ORIGINAL_FLUX1.prefixes,
  entries: [
    renamed("time_in.in_layer", `${EMBEDDER}.linear_1`),
    renamed("time_in.out_layer", `${EMBEDDER}.linear_2`),
    ...FLUX1_HEAD_NORMS,
    ...ORIGINAL_FLUX1.entries,
  ],
};

const TRANSFORMER: ComponentFormat = {
  name: "a LongCat-Image transformer",
  component: "transformer",
  className: "LongCatImageTransformer2DModel",
  architecture: "flux",
  namings: [
    {
      probes: ["double_blocks.0.img_mod.lin.weight", "double_blocks.0.img_mlp.0.weight"],
      layout: ORIGINAL_LONGCAT_IMAGE,
    },
    { probes: [`${EMBEDDER}.linear_1.weight`, "single_transformer_blocks.0.proj_mlp.weight"] },
  ],
  // FLUX.1's take what CLIP sums up, or guidance.
  fits: (tensors) =>
    tensors.find(`${EMBEDDER}.linear_1.weight`) !== undefined &&
    [...tensors.names].every((name) => !/^time_text_embed\.|^controlnet_/.test(name)),
  config: transformerConfig,
};

/** Source of what shapes do not tell: transformer/config.json of LongCat-Image. */
function transformerConfig(tensors: TensorSource): JsonObject {
  return {
    _class_name: TRANSFORMER.className,
    ...doubleStreamSizes(tensors),
    axes_dims_rope: [16, 56, 56],
  };
}

/** Single files, which only their names tell apart: those of the model that edits have `edit` in them. */
export const LONGCAT_IMAGE_FILES: FamilyFiles = {
  seeingClasses: [EDIT_CLASS],
  formats: [TRANSFORMER, QWEN2_5_VL_FORMAT, FLUX1_VAE_FORMAT],
  defaults: (_, path) => {
    const isEdit = /edit/i.test(basename(path));
    return {
      className: isEdit ? EDIT_CLASS : "LongCatImagePipeline",
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
      repositories: isEdit
        ? ["meituan-longcat/LongCat-Image-Edit", "meituan-longcat/LongCat-Image-Edit-Turbo"]
        : ["meituan-longcat/LongCat-Image"],
    };
  },
};
