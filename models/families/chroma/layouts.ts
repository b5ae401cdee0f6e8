/** Chroma in single files. Source of the names: diffusers' `convert_chroma_transformer_checkpoint_to_diffusers`. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX1_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import {
  type ComponentFormat,
  countModules,
  doubleStreamSizes,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { type Layout, renamed } from "../../layouts.ts";
import { T5_FORMAT } from "../../text_encoders/t5.ts";
import { ORIGINAL_FLUX1 } from "../flux1/layouts.ts";

const NETWORK = "distilled_guidance_layer";

/** FLUX.1's names, and those of the network that gives modulation. */
export const ORIGINAL_CHROMA: Layout = {
  name: "original Chroma",
  prefixes: ORIGINAL_FLUX1.prefixes,
  entries: [
    ...ORIGINAL_FLUX1.entries,
    renamed(`${NETWORK}.layers.*.in_layer`, `${NETWORK}.layers.*.linear_1`),
    renamed(`${NETWORK}.layers.*.out_layer`, `${NETWORK}.layers.*.linear_2`),
    renamed(`${NETWORK}.norms.*.scale`, `${NETWORK}.norms.*.weight`),
  ],
};

const TRANSFORMER: ComponentFormat = {
  name: "a Chroma transformer",
  component: "transformer",
  className: "ChromaTransformer2DModel",
  architecture: "flux",
  namings: [
    {
      probes: [`${NETWORK}.in_proj.weight`, "double_blocks.0.img_attn.qkv.weight"],
      layout: ORIGINAL_CHROMA,
    },
    { probes: [`${NETWORK}.in_proj.weight`, "transformer_blocks.0.attn.to_q.weight"] },
  ],
  config: transformerConfig,
};

/** What Chroma1-Radiance has instead of a last layer. */
const RADIANCE = "nerf_final_layer_conv.conv.weight";

/** Source of what shapes do not tell: transformer/config.json of Chroma1-HD. */
function transformerConfig(tensors: TensorSource): JsonObject {
  if (tensors.find(RADIANCE) || tensors.find("nerf_final_layer.linear.weight")) {
    throw new TypeError(
      `Cannot use "${tensors.path}": it is Chroma1-Radiance, which draws pixels without an autoencoder, and is not supported; ` +
        "take Chroma1-HD",
    );
  }
  const [hidden, channels] = shapeOf(tensors, `${NETWORK}.in_proj.weight`, 2) as [number, number];
  return {
    _class_name: TRANSFORMER.className,
    ...doubleStreamSizes(tensors),
    axes_dims_rope: [16, 56, 56],
    approximator_num_channels: channels,
    approximator_hidden_dim: hidden,
    approximator_layers: countModules(tensors, `${NETWORK}.layers.`),
  };
}

export const CHROMA_FILES: FamilyFiles = {
  formats: [TRANSFORMER, { ...T5_FORMAT, component: "text_encoder" }, FLUX1_VAE_FORMAT],
  defaults: () => ({
    className: "ChromaPipeline",
    settings: {},
    scheduler: {
      _class_name: "FlowMatchEulerDiscreteScheduler",
      num_train_timesteps: 1000,
      shift: 1,
      use_dynamic_shifting: false,
    },
    repositories: ["lodestones/Chroma1-HD", "lodestones/Chroma1-Base"],
  }),
};
