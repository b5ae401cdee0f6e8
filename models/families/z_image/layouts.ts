/** Z-Image in single files. Source of the names: diffusers' `convert_z_image_transformer_checkpoint_to_diffusers`. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX1_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { QWEN3_FORMAT } from "../../text_encoders/qwen3.ts";
import { type Layout, renamed, renamedIn } from "../../layouts.ts";
import { PATCH_KEY, PATCH_SIDE } from "./config.ts";

const STACKS = ["layers", "noise_refiner", "context_refiner"];

/** The names of the Z-Image team, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_Z_IMAGE: Layout = {
  name: "original Z-Image",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    ...STACKS.flatMap((stack) => {
      const attention = `${stack}.*.attention`;
      return [
        {
          theirs: `${attention}.qkv`,
          ours: ["to_q", "to_k", "to_v"].map((name) => `${attention}.${name}`),
        },
        ...renamedIn(
          [["out", "to_out.0"], ["q_norm", "norm_q"], ["k_norm", "norm_k"]],
          attention,
          attention,
        ),
      ];
    }),
    renamed("x_embedder", `all_x_embedder.${PATCH_KEY}`),
    renamed("final_layer.linear", `all_final_layer.${PATCH_KEY}.linear`),
    renamed("final_layer.adaLN_modulation.1", `all_final_layer.${PATCH_KEY}.adaLN_modulation.1`),
  ],
};

const TRANSFORMER: ComponentFormat = {
  name: "a Z-Image transformer",
  component: "transformer",
  className: "ZImageTransformer2DModel",
  architecture: "lumina2",
  namings: [
    // Lumina 2, which has the same blocks, has no tokens of its own for padding.
    { probes: ["cap_pad_token", "x_embedder.weight"], layout: ORIGINAL_Z_IMAGE },
    { probes: ["cap_pad_token", `all_x_embedder.${PATCH_KEY}.weight`] },
  ],
  config: transformerConfig,
};

/** Source of what shapes do not tell: transformer/config.json of Z-Image-Turbo. */
function transformerConfig(tensors: TensorSource): JsonObject {
  const embedder = `all_x_embedder.${PATCH_KEY}.weight`;
  const [dim, features] = shapeOf(tensors, embedder, 2) as [number, number];
  const siglip = tensors.find("siglip_embedder.1.weight");
  return {
    _class_name: TRANSFORMER.className,
    all_patch_size: [PATCH_SIDE],
    all_f_patch_size: [1],
    in_channels: features / PATCH_SIDE ** 2,
    dim,
    n_layers: countModules(tensors, "layers."),
    n_refiner_layers: countModules(tensors, "noise_refiner."),
    n_heads: dim / shapeOf(tensors, "layers.0.attention.norm_q.weight", 1)[0]!,
    cap_feat_dim: shapeOf(tensors, "cap_embedder.1.weight", 2)[1]!,
    siglip_feat_dim: siglip?.shape[1] ?? null,
    norm_eps: 1e-5,
    rope_theta: 256,
    t_scale: 1000,
    axes_dims: [32, 48, 48],
    axes_lens: [1536, 512, 512],
  };
}

const CONTROLNET: ComponentFormat = {
  name: "a ControlNet for Z-Image",
  component: "controlnet",
  className: "ZImageControlNetModel",
  namings: [{
    probes: [`control_all_x_embedder.${PATCH_KEY}.weight`, "control_layers.0.before_proj.weight"],
  }],
  config: controlNetConfig,
};

/** Layers of the published transformers, among which those that are steered lie evenly. */
const LAYERS = 30;
/** Noise refiners of published models. */
const REFINERS = 2;

/** Source of what shapes do not tell: config.json of alibaba-pai's models for diffusers. */
function controlNetConfig(tensors: TensorSource): JsonObject {
  const embedder = `control_all_x_embedder.${PATCH_KEY}.weight`;
  const [dim, features] = shapeOf(tensors, embedder, 2) as [number, number];
  const count = countModules(tensors, "control_layers.");
  const channels = features / PATCH_SIDE ** 2;
  // The first ones see nothing but the picture, and refine it for itself.
  const isFirst = channels === IN_CHANNELS;
  const refiner = isEmpty(tensors, "control_noise_refiner.0.before_proj.weight")
    ? "control_layers"
    : "control_noise_refiner";
  return {
    _class_name: CONTROLNET.className,
    control_layers_places: Array.from({ length: count }, (_, i) => Math.floor(i * LAYERS / count)),
    control_refiner_layers_places: isFirst ? null : Array.from({ length: REFINERS }, (_, i) => i),
    control_in_dim: channels,
    add_control_noise_refiner: isFirst ? null : refiner,
    dim,
    n_refiner_layers: REFINERS,
    n_heads: dim / shapeOf(tensors, "control_layers.0.attention.norm_q.weight", 1)[0]!,
    norm_eps: 1e-5,
  };
}

/** Latents' channels of the published transformers. */
const IN_CHANNELS = 16;
/** Bytes that are read at a time. */
const PIECE = 2 ** 20;

/** Whether a layer is missing or was never trained: version 2.0 has one of zeros that nothing uses, 2.1 trained it. */
function isEmpty(tensors: TensorSource, name: string): boolean {
  const tensor = tensors.find(name);
  for (let start = 0; tensor && start < tensor.byteLength; start += PIECE) {
    const bytes = new Uint8Array(Math.min(PIECE, tensor.byteLength - start));
    tensors.read(name, start, bytes);
    if (bytes.some((byte) => byte !== 0)) return false;
  }
  return true;
}

/** Single files. Their names do not tell Z-Image from Z-Image-Turbo, whose scheduler this is. */
export const Z_IMAGE_FILES: FamilyFiles = {
  formats: [TRANSFORMER, CONTROLNET, QWEN3_FORMAT, FLUX1_VAE_FORMAT],
  defaults: () => ({
    className: "ZImagePipeline",
    settings: {},
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 3,
      use_dynamic_shifting: false,
    },
    repositories: ["Tongyi-MAI/Z-Image-Turbo", "Tongyi-MAI/Z-Image"],
  }),
};
