import { z } from "zod";
import { refuse } from "../../config.ts";

const size = (value: number) => z.int().positive().default(value);

/** `vae/config.json` of `AutoencoderKLHunyuanVideo15`; defaults are those of the class. */
export const HUNYUAN_VIDEO_15_VAE_CONFIG = z.object({
  _class_name: z.literal("AutoencoderKLHunyuanVideo15").default("AutoencoderKLHunyuanVideo15"),
  in_channels: z.literal(3).default(3),
  out_channels: z.literal(3).default(3),
  latent_channels: size(32),
  block_out_channels: z.array(z.int().positive()).min(2).max(16)
    .default([128, 256, 512, 1024, 1024]),
  layers_per_block: size(2),
  spatial_compression_ratio: size(16),
  temporal_compression_ratio: size(4),
  downsample_match_channel: z.literal(true).default(true),
  upsample_match_channel: z.literal(true).default(true),
  scaling_factor: z.number().positive().default(1.03682),
}).superRefine((config, context) => {
  const { block_out_channels: widths, latent_channels: latents } = config;
  const { spatial_compression_ratio: spatial, temporal_compression_ratio: temporal } = config;
  const whole = (...sizes: number[]) => sizes.every(Number.isInteger);
  const check = (holds: boolean, path: string, message: string) => {
    if (!holds) refuse(context, path, message);
  };
  const [levels, temporalLevels] = [Math.log2(spatial), Math.log2(temporal)];
  check(
    whole(levels) && levels < widths.length,
    "spatial_compression_ratio",
    `it must be a power of two, of at most ${widths.length - 1} halvings`,
  );
  check(
    whole(temporalLevels) && temporalLevels <= levels,
    "temporal_compression_ratio",
    "it must be a power of two, at most spatial_compression_ratio",
  );
  const last = widths.at(-1)!;
  check(
    whole(last / (2 * latents)),
    "latent_channels",
    `twice as many must divide the last width, ${last}`,
  );
  const steps = widths.slice(0, levels).map((width, i) => {
    const next = widths[i + 1]!;
    // Means of a first frame are over half as many channels, and as many are copied.
    return whole(next / 8, 4 * width / next, width / 8, 4 * next / width);
  });
  check(
    steps.every(Boolean),
    "block_out_channels",
    "widths must be multiples of 8, each a whole part of four times the next, and the other way round",
  );
});

export type HunyuanVideo15VaeConfig = z.output<typeof HUNYUAN_VIDEO_15_VAE_CONFIG>;

/** Whether a level of the encoder halves the size, and the number of frames. */
export function levelSteps(
  { spatial_compression_ratio: spatial, temporal_compression_ratio: temporal }:
    HunyuanVideo15VaeConfig,
  level: number,
): { readonly spatial: boolean; readonly temporal: boolean } {
  const down = Math.log2(spatial);
  return {
    spatial: level < down,
    temporal: level < down && level >= down - Math.log2(temporal),
  };
}
