/** Wan's components in single files: how they are known, and what their folders would say of them. */
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { WAN_VAE_FORMAT } from "../../autoencoders/wan/format.ts";
import {
  type ComponentFormat,
  countModules,
  type FamilyDefaults,
  type FamilyFiles,
  shapeOf,
} from "../../checkpoints/component_format.ts";
import { UMT5_FORMAT } from "../../text_encoders/umt5_format.ts";
import { ORIGINAL_WAN } from "./layouts.ts";

/** Of all published checkpoints; the shapes of weights do not tell how heads share their rows. */
const HEAD_DIM = 128;

/** Latent channels of Wan 2.2's autoencoder, for which only TI2V was made. */
const TI2V_CHANNELS = 48;

/** Channels of all heads together from which on checkpoints were made for 720p. */
const LARGE_DIM = 3072;

const TRANSFORMER: ComponentFormat = {
  name: "a Wan transformer",
  component: "transformer",
  className: "WanTransformer3DModel",
  namings: [
    {
      probes: ["blocks.0.self_attn.q.weight", "blocks.0.cross_attn.q.weight", "head.modulation"],
      layout: ORIGINAL_WAN,
    },
    {
      probes: [
        "condition_embedder.time_proj.weight",
        "blocks.0.attn2.to_q.weight",
        "patch_embedding.weight",
      ],
    },
  ],
  config: transformerConfig,
};

function transformerConfig(tensors: TensorSource): JsonObject {
  for (const other of ["vace_blocks.0.after_proj.weight", "motion_encoder.dec.direction.weight"]) {
    if (!tensors.find(other)) continue;
    throw new TypeError(
      `Cannot use "${tensors.path}": it has a tensor "${other}", as VACE and Animate have, which are not supported`,
    );
  }
  const [dim, inChannels, ...patch] = shapeOf(tensors, "patch_embedding.weight", 5) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const embedder = "condition_embedder.text_embedder.linear_1.weight";
  const image = tensors.find("condition_embedder.image_embedder.ff.net.0.proj.weight");
  const imageDim = image?.shape[1] ?? null;
  return {
    _class_name: TRANSFORMER.className,
    patch_size: patch,
    num_attention_heads: dim / HEAD_DIM,
    attention_head_dim: HEAD_DIM,
    in_channels: inChannels,
    out_channels: shapeOf(tensors, "proj_out.weight", 2)[0]! / patch.reduce((a, b) => a * b),
    text_dim: shapeOf(tensors, embedder, 2)[1]!,
    freq_dim: shapeOf(tensors, "condition_embedder.time_embedder.linear_1.weight", 2)[1]!,
    ffn_dim: shapeOf(tensors, "blocks.0.ffn.net.0.proj.weight", 2)[0]!,
    num_layers: countModules(tensors, "blocks."),
    cross_attn_norm: tensors.find("blocks.0.norm2.weight") !== undefined,
    image_dim: imageDim,
    added_kv_proj_dim: imageDim === null ? null : dim,
  };
}

/**
 * Source of the shifts: the scheduler_config.json of the published models, 3 for 480p and 5 for 720p.
 */
function defaults(transformer: JsonObject): FamilyDefaults {
  const isTi2v = transformer["in_channels"] === TI2V_CHANNELS;
  const dim = Number(transformer["num_attention_heads"]) * HEAD_DIM;
  const isLarge = dim >= LARGE_DIM;
  return {
    className: "WanPipeline",
    settings: { expand_timesteps: isTi2v },
    scheduler: {
      _class_name: "UniPCMultistepScheduler",
      num_train_timesteps: 1000,
      solver_order: 2,
      prediction_type: "flow_prediction",
      use_flow_sigmas: true,
      flow_shift: isLarge ? 5 : 3,
    },
    repositories: isTi2v
      ? ["Wan-AI/Wan2.2-TI2V-5B-Diffusers"]
      : isLarge
      ? ["Wan-AI/Wan2.1-T2V-14B-Diffusers", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"]
      : ["Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "Wan-AI/Wan2.1-T2V-14B-Diffusers"],
  };
}

/** See the file comment. */
export const WAN_FILES: FamilyFiles = {
  formats: [TRANSFORMER, UMT5_FORMAT, WAN_VAE_FORMAT],
  defaults,
};
