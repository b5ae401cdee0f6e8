import { z } from "zod";
import { refuse } from "../../config.ts";

/** `audio_vae/config.json` of `AutoencoderKLLTX2Audio`; defaults are those of the class. */
export const LTX2_AUDIO_VAE_CONFIG = z.object({
  _class_name: z.literal("AutoencoderKLLTX2Audio").default("AutoencoderKLLTX2Audio"),
  base_channels: z.int().positive().default(128),
  output_channels: z.int().positive().default(2),
  /** Two ways down: the class counts on a quarter of the frames and bands. */
  ch_mult: z.tuple([z.int().positive(), z.int().positive(), z.int().positive()])
    .default([1, 2, 4]),
  num_res_blocks: z.int().positive().default(2),
  attn_resolutions: z.array(z.int()).max(0, "attention in the levels is not supported").nullish(),
  in_channels: z.int().positive().default(2),
  latent_channels: z.int().positive().default(8),
  norm_type: z.literal("pixel").default("pixel"),
  causality_axis: z.literal("height").default("height"),
  mid_block_add_attention: z.literal(false).default(false),
  sample_rate: z.int().positive().default(16_000),
  mel_hop_length: z.int().positive().default(160),
  is_causal: z.literal(true).default(true),
  mel_bins: z.int().positive().multipleOf(4).nullish().transform((bins) => bins ?? 64),
  double_z: z.literal(true).default(true),
}).superRefine((config, context) => {
  const features = audioFeatures(config);
  if (config.base_channels === features) return;
  refuse(
    context,
    "base_channels",
    `its statistics are of ${config.base_channels} features, and latents have ${features}`,
  );
});

export type Ltx2AudioVaeConfig = z.output<typeof LTX2_AUDIO_VAE_CONFIG>;

/** Mel frames and bands of a latent. */
export const AUDIO_SCALE = 4;

/** Features of a latent frame: of each channel all bands. */
export function audioFeatures(
  { latent_channels, mel_bins }: { readonly latent_channels: number; readonly mel_bins: number },
): number {
  return latent_channels * mel_bins / AUDIO_SCALE;
}

/** Mel frames of a second. */
export function melRate({ sample_rate, mel_hop_length }: Ltx2AudioVaeConfig): number {
  return sample_rate / mel_hop_length;
}

/** Latent frames of a second. */
export function audioRate(config: Ltx2AudioVaeConfig): number {
  return melRate(config) / AUDIO_SCALE;
}
