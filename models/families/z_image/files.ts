/** Z-Image's components in single files: how they are known, and what their folders would say of them. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { KL_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { QWEN3_FORMAT } from "../../text_encoders/qwen3_format.ts";
import { PATCH_KEY, PATCH_SIDE } from "./config.ts";
import { ORIGINAL_Z_IMAGE } from "./layouts.ts";

const TRANSFORMER: ComponentFormat = {
  name: "a Z-Image transformer",
  component: "transformer",
  className: "ZImageTransformer2DModel",
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

/** See the file comment. Names do not tell Z-Image from Z-Image-Turbo, whose scheduler it is. */
export const Z_IMAGE_FILES: FamilyFiles = {
  formats: [TRANSFORMER, QWEN3_FORMAT, KL_VAE_FORMAT],
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
