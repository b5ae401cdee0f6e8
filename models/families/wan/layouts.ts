/**
 * Wan in the files of other programs: their names for its modules, and what single files leave out.
 *
 * Source: the conversion tables of diffusers (`convert_wan_transformer_to_diffusers`), read against the module names of
 * the Wan team's own code.
 */
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
import type { Layout, LayoutEntry } from "../../layouts.ts";

const ATTENTION: readonly (readonly [theirs: string, ours: string])[] = [
  ["q", "to_q"],
  ["k", "to_k"],
  ["v", "to_v"],
  ["o", "to_out.0"],
  ["norm_q", "norm_q"],
  ["norm_k", "norm_k"],
  ["k_img", "add_k_proj"],
  ["v_img", "add_v_proj"],
  ["norm_k_img", "norm_added_k"],
];

/** The names of the Wan team, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_WAN: Layout = {
  name: "original Wan",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    ...[["self_attn", "attn1"], ["cross_attn", "attn2"]].flatMap(([theirs, ours]) =>
      ATTENTION.map(([a, b]) => entry(`blocks.*.${theirs}.${a}`, `blocks.*.${ours}.${b}`))
    ),
    // The two norms change places: the one before cross-attention is their third and diffusers' second.
    entry("blocks.*.norm3", "blocks.*.norm2"),
    entry("blocks.*.ffn.0", "blocks.*.ffn.net.0.proj"),
    entry("blocks.*.ffn.2", "blocks.*.ffn.net.2"),
    entry("blocks.*.modulation", "blocks.*.scale_shift_table"),
    entry("text_embedding.0", "condition_embedder.text_embedder.linear_1"),
    entry("text_embedding.2", "condition_embedder.text_embedder.linear_2"),
    entry("time_embedding.0", "condition_embedder.time_embedder.linear_1"),
    entry("time_embedding.2", "condition_embedder.time_embedder.linear_2"),
    entry("time_projection.1", "condition_embedder.time_proj"),
    entry("img_emb.proj.0", "condition_embedder.image_embedder.norm1"),
    entry("img_emb.proj.1", "condition_embedder.image_embedder.ff.net.0.proj"),
    entry("img_emb.proj.3", "condition_embedder.image_embedder.ff.net.2"),
    entry("img_emb.proj.4", "condition_embedder.image_embedder.norm2"),
    entry("head.head", "proj_out"),
    entry("head.modulation", "scale_shift_table"),
    entry("patch_embedding", "patch_embedding"),
  ],
};

function entry(theirs: string, ours: string): LayoutEntry {
  return { theirs, ours: [ours] };
}

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

/** Single files. */
export const WAN_FILES: FamilyFiles = {
  formats: [TRANSFORMER, UMT5_FORMAT, WAN_VAE_FORMAT],
  defaults,
};
