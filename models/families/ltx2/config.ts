/** What the files of an LTX-2 transformer and its connectors may say; defaults are those of diffusers. */
import { z } from "zod";
import { refuse } from "../../config.ts";

const MAX_LAYERS = 1024;
const size = (value: number) => z.int().positive().default(value);
const head = (value: number) => z.int().positive().multipleOf(4).max(128).default(value);
const one = z.literal(1, "only patches of one latent are supported").default(1);

const ROPE = {
  rope_theta: z.number().positive().default(10000),
  rope_type: z.enum(["interleaved", "split"]).default("interleaved"),
  rope_double_precision: z.literal(true, "frequencies in single precision are not supported")
    .default(true),
};

/** `transformer/config.json` of `LTX2VideoTransformer3DModel`. */
export const LTX2_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("LTX2VideoTransformer3DModel").default("LTX2VideoTransformer3DModel"),
  in_channels: size(128),
  out_channels: z.int().positive().nullish(),
  patch_size: one,
  patch_size_t: one,
  num_attention_heads: size(32),
  attention_head_dim: head(128),
  cross_attention_dim: size(4096),
  vae_scale_factors: z.tuple([z.int().positive(), z.int().positive(), z.int().positive()])
    .default([8, 32, 32]),
  pos_embed_max_pos: size(20),
  base_height: size(2048),
  base_width: size(2048),
  gated_attn: z.boolean().default(false),
  cross_attn_mod: z.boolean().default(false),
  audio_in_channels: size(128),
  audio_out_channels: z.int().positive().nullish(),
  audio_patch_size: one,
  audio_patch_size_t: one,
  audio_num_attention_heads: size(32),
  audio_attention_head_dim: head(64),
  audio_cross_attention_dim: size(2048),
  audio_scale_factor: size(4),
  audio_pos_embed_max_pos: size(20),
  audio_sampling_rate: size(16000),
  audio_hop_length: size(160),
  audio_gated_attn: z.boolean().default(false),
  audio_cross_attn_mod: z.boolean().default(false),
  num_layers: z.int().positive().max(MAX_LAYERS).default(48),
  activation_fn: z.literal("gelu-approximate").default("gelu-approximate"),
  qk_norm: z.literal("rms_norm_across_heads").default("rms_norm_across_heads"),
  norm_elementwise_affine: z.literal(false, "norms with weights are not supported").default(false),
  norm_eps: z.number().positive().max(1).default(1e-6),
  caption_channels: size(3840),
  // Biases are taken where the weights have them.
  attention_bias: z.boolean().default(true),
  attention_out_bias: z.boolean().default(true),
  ff_bias: z.boolean().default(true),
  audio_ff_bias: z.boolean().default(true),
  ...ROPE,
  causal_offset: z.int().nonnegative().default(1),
  timestep_scale_multiplier: size(1000),
  cross_attn_timestep_scale_multiplier: size(1000),
  /** LTX-2.0: the transformer itself projects the prompt, which has its connectors' width. */
  use_prompt_embeddings: z.boolean().default(true),
  perturbed_attn: z.boolean().default(false),
  use_prompt_adaln_single: z.boolean().default(true),
  use_keyframes_abs_pos_embedding: z.literal(
    false,
    "embeddings of keyframes, as LTX-2.5 has them, are not supported",
  ).default(false),
}).superRefine((config, context) => {
  const { in_channels: channels, audio_num_attention_heads, audio_attention_head_dim } = config;
  const audioDim = audio_num_attention_heads * audio_attention_head_dim;
  for (const key of ["out_channels", "audio_in_channels", "audio_out_channels"] as const) {
    if ((config[key] ?? channels) !== channels) {
      refuse(context, key, `it must be in_channels = ${channels}`);
    }
  }
  if (config.audio_cross_attention_dim !== audioDim) {
    refuse(
      context,
      "audio_cross_attention_dim",
      `it must be the width of the sound's tokens = ${audioDim}`,
    );
  }
  if (config.rope_type === "split" && config.num_attention_heads !== audio_num_attention_heads) {
    refuse(
      context,
      "num_attention_heads",
      `with split positions the sound's tokens must have as many heads, and they have ${audio_num_attention_heads}`,
    );
  }
  if (config.cross_attn_mod !== config.audio_cross_attn_mod) {
    refuse(context, "audio_cross_attn_mod", `it must be cross_attn_mod = ${config.cross_attn_mod}`);
  }
});

export type Ltx2TransformerConfig = z.output<typeof LTX2_TRANSFORMER_CONFIG>;

/** The kinds of tokens. */
export type Modality = "video" | "audio";

interface Stream {
  readonly dim: number;
  readonly heads: number;
  readonly isGated: boolean;
  /** What the names of its modules begin with. */
  readonly prefix: "" | "audio_";
}

export function streamOf(config: Ltx2TransformerConfig, modality: Modality): Stream {
  const isVideo = modality === "video";
  const heads = isVideo ? config.num_attention_heads : config.audio_num_attention_heads;
  const headDim = isVideo ? config.attention_head_dim : config.audio_attention_head_dim;
  return {
    dim: heads * headDim,
    heads,
    isGated: isVideo ? config.gated_attn : config.audio_gated_attn,
    prefix: isVideo ? "" : "audio_",
  };
}

const registers = z.int("a connector without registers is not supported").positive().default(128);

/** `connectors/config.json` of `LTX2TextConnectors`. */
export const LTX2_CONNECTORS_CONFIG = z.object({
  _class_name: z.literal("LTX2TextConnectors").default("LTX2TextConnectors"),
  caption_channels: size(3840),
  text_proj_in_factor: size(49),
  video_connector_num_attention_heads: size(30),
  video_connector_attention_head_dim: head(128),
  video_connector_num_layers: z.int().nonnegative().max(MAX_LAYERS).default(2),
  video_connector_num_learnable_registers: registers,
  video_gated_attn: z.boolean().default(false),
  audio_connector_num_attention_heads: size(30),
  audio_connector_attention_head_dim: head(128),
  audio_connector_num_layers: z.int().nonnegative().max(MAX_LAYERS).default(2),
  audio_connector_num_learnable_registers: registers,
  audio_gated_attn: z.boolean().default(false),
  connector_rope_base_seq_len: size(4096),
  ...ROPE,
  // Nothing in the reference reads it.
  causal_temporal_positioning: z.boolean().default(false),
  /** LTX-2.3: a projection for each of video and sound. */
  per_modality_projections: z.boolean().default(false),
  video_hidden_dim: size(4096),
  audio_hidden_dim: size(2048),
  proj_bias: z.boolean().default(false),
}).superRefine((config, context) => {
  for (const modality of ["video", "audio"] as const) {
    const width = config[`${modality}_connector_num_attention_heads`] *
      config[`${modality}_connector_attention_head_dim`];
    const expected = projectedWidth(config, modality);
    if (width === expected) continue;
    refuse(
      context,
      `${modality}_connector_num_attention_heads`,
      `heads of all make a width of ${width}, and the prompt's is ${expected}`,
    );
  }
});

export type Ltx2ConnectorsConfig = z.output<typeof LTX2_CONNECTORS_CONFIG>;

/** The width of a prompt's states once they are projected. */
export function projectedWidth(
  { per_modality_projections, caption_channels, video_hidden_dim, audio_hidden_dim }: {
    readonly per_modality_projections: boolean;
    readonly caption_channels: number;
    readonly video_hidden_dim: number;
    readonly audio_hidden_dim: number;
  },
  modality: Modality,
): number {
  if (!per_modality_projections) return caption_channels;
  return modality === "video" ? video_hidden_dim : audio_hidden_dim;
}
