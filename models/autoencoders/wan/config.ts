import { z } from "zod";
import { refuse } from "../../config.ts";

/** Of the autoencoder that knows images alone. */
export const FLAT_VAE_CLASS = "AutoencoderKLQwenImage21";

const VAE_CONFIG = z.object({
  _class_name: z.enum(["AutoencoderKLWan", FLAT_VAE_CLASS]).default("AutoencoderKLWan"),
  base_dim: z.int().positive().default(96),
  decoder_base_dim: z.int().positive().nullish(),
  z_dim: z.int().positive().default(16),
  dim_mult: z.array(z.int().positive()).min(1).default([1, 2, 4, 4]),
  num_res_blocks: z.int().positive().default(2),
  attn_scales: z.array(z.number()).max(
    0,
    "attention inside the levels (attn_scales) is not supported",
  ).default([]),
  /** Spelt as the files spell it. One flag per level but the last. */
  temperal_downsample: z.array(z.boolean()).default([false, true, true]),
  latents_mean: z.array(z.number()),
  latents_std: z.array(z.number().positive()),
  is_residual: z.boolean().default(false),
  in_channels: z.int().positive().default(3),
  out_channels: z.int().positive().default(3),
  patch_size: z.int().positive().nullish(),
  scale_factor_temporal: z.int().positive().default(4),
  scale_factor_spatial: z.int().positive().default(8),
}).superRefine((config, context) => {
  const check = (holds: boolean, path: string, message: string) => {
    if (!holds) refuse(context, path, message);
  };
  const {
    z_dim,
    dim_mult,
    temperal_downsample,
    patch_size,
    scale_factor_spatial,
    scale_factor_temporal,
  } = config;
  check(
    config.latents_mean.length === z_dim,
    "latents_mean",
    `it must have z_dim = ${z_dim} entries`,
  );
  check(
    config.latents_std.length === z_dim,
    "latents_std",
    `it must have z_dim = ${z_dim} entries`,
  );
  check(
    temperal_downsample.length === dim_mult.length - 1,
    "temperal_downsample",
    `it must have ${dim_mult.length - 1} entries, one less than dim_mult`,
  );
  const pixelChannels = 3 * (patch_size ?? 1) ** 2;
  const isRgba = !patch_size && config.in_channels === 4 && config.out_channels === 4;
  for (const key of ["in_channels", "out_channels"] as const) {
    const holds = isRgba || config[key] === pixelChannels;
    check(holds, key, `RGB in its patches has ${pixelChannels} channels`);
  }
  const spatial = (patch_size ?? 1) * 2 ** (dim_mult.length - 1);
  check(
    scale_factor_spatial === spatial,
    "scale_factor_spatial",
    `the levels and patches give ${spatial}`,
  );
  const temporal = 2 ** temperal_downsample.filter(Boolean).length;
  check(
    scale_factor_temporal === temporal,
    "scale_factor_temporal",
    `temperal_downsample gives ${temporal}`,
  );
});

export type WanVaeConfig = z.output<typeof VAE_CONFIG>;

/** `vae/config.json` of `AutoencoderKLWan`; defaults are those of the diffusers class (Wan 2.1). */
export const WAN_VAE_CONFIG = VAE_CONFIG.refine(
  ({ in_channels }) => in_channels !== 4,
  { path: ["in_channels"], message: "images with alpha are Qwen-Image-Layered's alone" },
);

/** `config.json` of `AutoencoderKLQwenImage`, Wan 2.1's for images, maybe RGBA, or of `AutoencoderKLWan`. */
export const QWEN_IMAGE_VAE_CONFIG = z.preprocess((json) => {
  if (typeof json !== "object" || json === null) return json;
  const { _class_name, input_channels = 3, ...config } = json as Record<string, unknown>;
  if (_class_name !== "AutoencoderKLQwenImage") return json;
  const { temperal_downsample: levels = [false, true, true] } = config;
  const flags: unknown[] = Array.isArray(levels) ? levels : [];
  return {
    ...config,
    in_channels: input_channels,
    out_channels: input_channels,
    temperal_downsample: levels,
    scale_factor_spatial: 2 ** flags.length,
    scale_factor_temporal: 2 ** flags.filter(Boolean).length,
  };
}, VAE_CONFIG);

/** `config.json` of `AutoencoderKLQwenImage21`; defaults are those of the class. */
export const QWEN_IMAGE_21_VAE_CONFIG = z.preprocess((json) => {
  if (typeof json !== "object" || json === null) return json;
  return {
    _class_name: FLAT_VAE_CLASS,
    decoder_base_dim: 144,
    z_dim: 64,
    dim_mult: [1, 2, 4, 8, 8],
    temperal_downsample: [false, true, true, true],
    is_residual: true,
    in_channels: 4,
    out_channels: 4,
    scale_factor_temporal: 8,
    scale_factor_spatial: 16,
    ...json,
  };
}, VAE_CONFIG);

/** Latent frames of a video; numbers of frames that are not 1 + k·temporal are rounded as the reference does. */
export function latentFrameCount(numFrames: number, temporal: number): number {
  const rounded = numFrames % temporal === 1
    ? numFrames
    : Math.floor(numFrames / temporal) * temporal + 1;
  return Math.floor((rounded - 1) / temporal) + 1;
}
