/** Qwen-Image in single files, all of which have the names of diffusers. */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { WAN_VAE_FORMAT } from "../../autoencoders/wan/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { QWEN2_5_MMPROJ_FORMAT } from "../../image_encoders/mmproj_format.ts";
import { QWEN2_5_VL_FORMAT } from "../../text_encoders/qwen2_5_vl.ts";
import { EDIT_CLASSES, LAYERED_CLASS, PATCH_SIDE } from "./config.ts";

const CONTROL_EMBEDDER = "controlnet_x_embedder.weight";

const TRANSFORMER: ComponentFormat = {
  name: "a Qwen-Image transformer",
  component: "transformer",
  className: "QwenImageTransformer2DModel",
  architecture: "qwen_image",
  namings: [{ probes: ["transformer_blocks.0.img_mod.1.weight", "txt_norm.weight"] }],
  fits: (tensors) => tensors.find(CONTROL_EMBEDDER) === undefined,
  config: transformerConfig,
};

const CONTROLNET: ComponentFormat = {
  name: "a ControlNet for Qwen-Image",
  component: "controlnet",
  className: "QwenImageControlNetModel",
  namings: [{ probes: [CONTROL_EMBEDDER, "txt_norm.weight"] }],
  config: (tensors) => {
    const { in_channels, ...sizes } = sizesOf(tensors);
    return {
      ...sizes,
      in_channels,
      _class_name: CONTROLNET.className,
      out_channels: Number(in_channels) / PATCH_SIDE ** 2,
      extra_condition_channels: shapeOf(tensors, CONTROL_EMBEDDER, 2)[1]! - Number(in_channels),
    };
  },
};

/** Source of what shapes do not tell: transformer/config.json of Qwen-Image. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const makesLayers = tensors.find("time_text_embed.addition_t_embedding.weight") !== undefined;
  return {
    ...sizesOf(tensors),
    _class_name: TRANSFORMER.className,
    out_channels: shapeOf(tensors, "proj_out.weight", 2)[0]! / PATCH_SIDE ** 2,
    guidance_embeds: false,
    // Of Qwen-Image-Layered's alone.
    use_additional_t_cond: makesLayers,
    use_layer3d_rope: makesLayers,
    // ComfyUI's files of 2511 say so by a tensor of their own.
    zero_cond_t: tensors.find("__index_timestep_zero__") !== undefined ||
      isEdit2511(basename(tensors.path).toLowerCase()),
  };
}

function isEdit2511(name: string): boolean {
  const at = name.indexOf("edit");
  return at >= 0 && name.includes("2511", at);
}

function sizesOf(tensors: TensorSource): JsonObject {
  const [dim, channels] = shapeOf(tensors, "img_in.weight", 2) as [number, number];
  const headDim = shapeOf(tensors, "transformer_blocks.0.attn.norm_q.weight", 1)[0]!;
  return {
    patch_size: PATCH_SIDE,
    in_channels: channels,
    num_layers: countModules(tensors, "transformer_blocks."),
    attention_head_dim: headDim,
    num_attention_heads: dim / headDim,
    joint_attention_dim: shapeOf(tensors, "txt_in.weight", 2)[1]!,
    axes_dims_rope: [16, 56, 56],
  };
}

/** Single files: only their names tell Qwen-Image-Edit from Qwen-Image; Qwen-Image-Layered's has one more tensor. */
export const QWEN_IMAGE_FILES: FamilyFiles = {
  formats: [TRANSFORMER, CONTROLNET, QWEN2_5_VL_FORMAT, QWEN2_5_MMPROJ_FORMAT, WAN_VAE_FORMAT],
  seeingClasses: EDIT_CLASSES,
  defaults: ({ zero_cond_t, use_layer3d_rope }, path) => {
    const name = basename(path);
    const isLayered = use_layer3d_rope === true;
    const isEdit = zero_cond_t === true || /edit/i.test(name);
    const isPlus = zero_cond_t === true || /2509|2511|plus/i.test(name);
    const [edit, plus] = EDIT_CLASSES;
    const repositories = isLayered
      ? ["Qwen/Qwen-Image-Layered"]
      : isEdit
      ? ["Qwen/Qwen-Image-Edit-2511", "Qwen/Qwen-Image-Edit-2509", "Qwen/Qwen-Image-Edit"]
      : ["Qwen/Qwen-Image", "Qwen/Qwen-Image-2512"];
    return {
      className: isLayered ? LAYERED_CLASS : isEdit ? (isPlus ? plus : edit) : "QwenImagePipeline",
      settings: {},
      scheduler: {
        _class_name: "FlowMatchEulerDiscreteScheduler",
        num_train_timesteps: 1000,
        shift: 1,
        time_shift_type: "exponential",
        use_dynamic_shifting: true,
        base_shift: 0.5,
        max_shift: 0.9,
        shift_terminal: 0.02,
        base_image_seq_len: 256,
        max_image_seq_len: 8192,
      },
      repositories,
    };
  },
};
