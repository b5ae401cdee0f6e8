/** What the files of a Wan pipeline may say. Defaults are those of the diffusers classes. */
import { z } from "zod";

/** Largest side of a patch, in latents; models use 2. */
const MAX_PATCH = 16;

/** `transformer/config.json` of `WanTransformer3DModel`. */
export const WAN_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("WanTransformer3DModel").default("WanTransformer3DModel"),
  patch_size: z.tuple([
    z.literal(1),
    z.int().positive().max(MAX_PATCH),
    z.int().positive().max(MAX_PATCH),
  ]).default([1, 2, 2]),
  num_attention_heads: z.int().positive().default(40),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  in_channels: z.int().positive().default(16),
  out_channels: z.int().positive().default(16),
  text_dim: z.int().positive().default(4096),
  freq_dim: z.int().positive().multipleOf(2).default(256),
  ffn_dim: z.int().positive().default(13824),
  num_layers: z.int().positive().default(40),
  cross_attn_norm: z.boolean().default(true),
  qk_norm: z.literal("rms_norm_across_heads").default("rms_norm_across_heads"),
  eps: z.number().positive().max(1).default(1e-6),
  image_dim: z.null("image-conditioned Wan 2.1 checkpoints (image_dim) are not supported").default(
    null,
  ),
  added_kv_proj_dim: z.null(
    "image-conditioned Wan 2.1 checkpoints (added_kv_proj_dim) are not supported",
  )
    .default(null),
  rope_max_seq_len: z.int().positive().default(1024),
});

/** Parsed {@linkcode WAN_TRANSFORMER_CONFIG}. */
export type WanTransformerConfig = z.output<typeof WAN_TRANSFORMER_CONFIG>;

/** The keys of `model_index.json` that change what the pipeline does. */
export const WAN_PIPELINE_CONFIG = z.object({
  /** TI2V: every token has its own timestep, so that the first frame can be given clean. */
  expand_timesteps: z.boolean().nullish().transform((value) => value ?? false),
  boundary_ratio: z.null("two-stage Wan 2.2 checkpoints (boundary_ratio) are not supported")
    .default(null),
});

/** Parsed {@linkcode WAN_PIPELINE_CONFIG}. */
export type WanPipelineConfig = z.output<typeof WAN_PIPELINE_CONFIG>;
