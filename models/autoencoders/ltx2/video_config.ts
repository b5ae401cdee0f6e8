import { z } from "zod";
import { refuse } from "../../config.ts";

const COUNTS = z.array(z.int().positive()).min(1);
const WAYS = z.array(z.enum(["spatial", "temporal", "spatiotemporal"])).min(1);
/** One flag for each level, or one for all. */
const FLAGS = z.union([z.boolean(), z.array(z.boolean())]);
const PADDING = z.enum(["zeros", "reflect"]);

/** How far each way of scaling goes: frames, rows, columns. */
export const STRIDES = {
  spatial: [1, 2, 2],
  temporal: [2, 1, 1],
  spatiotemporal: [2, 2, 2],
} as const;

type Stride = readonly [frames: number, rows: number, columns: number];

/** A level of the encoder: residual blocks, then maybe a way down. */
export interface DownLevel {
  readonly blocks: number;
  readonly channels: number;
  readonly stride: Stride | undefined;
}

/** A level of the decoder: maybe a way up, then residual blocks. */
export interface UpLevel {
  readonly blocks: number;
  readonly channels: number;
  readonly stride: Stride | undefined;
  /** How many times fewer channels come out of the way up. */
  readonly factor: number;
  readonly isResidual: boolean;
}

const FIELDS = z.object({
  _class_name: z.literal("AutoencoderKLLTX2Video").default("AutoencoderKLLTX2Video"),
  in_channels: z.literal(3).default(3),
  out_channels: z.literal(3).default(3),
  latent_channels: z.int().positive().default(128),
  block_out_channels: COUNTS.default([256, 512, 1024, 2048]),
  down_block_types: z.array(z.literal("LTX2VideoDownBlock3D")).nullish(),
  decoder_block_out_channels: COUNTS.default([256, 512, 1024]),
  layers_per_block: COUNTS.default([4, 6, 6, 2, 2]),
  decoder_layers_per_block: COUNTS.default([5, 5, 5, 5]),
  spatio_temporal_scaling: FLAGS.default(true),
  decoder_spatio_temporal_scaling: FLAGS.default(true),
  decoder_inject_noise: FLAGS.default(false),
  downsample_type: WAYS.default(["spatial", "temporal", "spatiotemporal", "spatiotemporal"]),
  upsample_type: WAYS.default(["spatiotemporal", "spatiotemporal", "spatiotemporal"]),
  upsample_residual: FLAGS.default(true),
  upsample_factor: COUNTS.default([2, 2, 2]),
  timestep_conditioning: z.literal(false).default(false),
  patch_size: z.int().positive().default(4),
  patch_size_t: z.literal(1).default(1),
  resnet_norm_eps: z.number().positive().default(1e-6),
  scaling_factor: z.number().positive().default(1),
  encoder_causal: z.boolean().default(true),
  decoder_causal: z.boolean().default(true),
  encoder_spatial_padding_mode: PADDING.default("zeros"),
  decoder_spatial_padding_mode: PADDING.default("reflect"),
  spatial_compression_ratio: z.int().positive().nullish(),
  temporal_compression_ratio: z.int().positive().nullish(),
});

type Fields = z.output<typeof FIELDS>;

/** `vae/config.json` of `AutoencoderKLLTX2Video`; defaults are those of the class. */
export const LTX2_VIDEO_VAE_CONFIG = FIELDS.superRefine((config, context) => {
  const check = (holds: boolean, path: keyof Fields, message: string) => {
    if (!holds) refuse(context, path, message);
    return holds;
  };
  const levels = (path: keyof Fields, blocks: keyof Fields, more: number) => {
    const value = config[path];
    if (!Array.isArray(value)) return true;
    const count = (config[blocks] as number[]).length;
    return check(
      value.length === count + more,
      path,
      `it must have ${count + more} entries, as ${blocks} has ${count}`,
    );
  };
  const [down, up] = ["block_out_channels", "decoder_block_out_channels"] as const;
  const fits = [
    levels("layers_per_block", down, 1),
    levels("spatio_temporal_scaling", down, 0),
    levels("downsample_type", down, 0),
    levels("decoder_layers_per_block", up, 1),
    levels("decoder_spatio_temporal_scaling", up, 0),
    levels("upsample_type", up, 0),
    levels("upsample_residual", up, 0),
    levels("upsample_factor", up, 0),
  ];
  const noises = config.decoder_inject_noise;
  check(
    !(Array.isArray(noises) ? noises.includes(true) : noises),
    "decoder_inject_noise",
    "noise in the decoder is not supported",
  );
  if (fits.includes(false)) return;
  let wide = config.latent_channels;
  for (const { channels, stride } of downLevels(config)) {
    const cells = stride ? stride[0] * stride[1] * stride[2] : 1;
    const isWhole = stride
      ? channels % cells === 0 && wide * cells % channels === 0
      : channels === wide;
    check(isWhole, "block_out_channels", `${wide} channels do not become ${channels}`);
    wide = channels;
  }
  let before = config.decoder_block_out_channels.at(-1)!;
  for (const { channels, stride, factor } of upLevels(config)) {
    const isWhole = Number.isInteger(channels) && (factor === 1 || stride !== undefined) &&
      (factor === 1 || before === channels * factor);
    check(isWhole, "upsample_factor", `${before} channels do not become ${channels} by ${factor}`);
    before = channels;
  }
  const ways = [
    ["encoder", scaleOf(config, downLevels(config))],
    ["decoder", scaleOf(config, upLevels(config))],
  ] as const;
  for (const key of ["spatial_compression_ratio", "temporal_compression_ratio"] as const) {
    for (const [side, scale] of ways) {
      const own = key === "spatial_compression_ratio" ? scale.spatial : scale.temporal;
      check((config[key] ?? own) === own, key, `the levels of the ${side} give ${own}`);
    }
  }
  check(
    ways[0][1].spatial === ways[1][1].spatial && ways[0][1].temporal === ways[1][1].temporal,
    "upsample_type",
    "encoder and decoder scale by different factors",
  );
});

export type Ltx2VideoVaeConfig = z.output<typeof LTX2_VIDEO_VAE_CONFIG>;

function flagAt(flags: boolean | readonly boolean[], level: number): boolean {
  return typeof flags === "boolean" ? flags : flags[level]!;
}

/** The levels of the encoder, from the pixels on. */
export function downLevels(config: Ltx2VideoVaeConfig): DownLevel[] {
  return config.block_out_channels.map((channels, i) => ({
    blocks: config.layers_per_block[i]!,
    channels,
    stride: flagAt(config.spatio_temporal_scaling, i)
      ? STRIDES[config.downsample_type[i]!]
      : undefined,
  }));
}

/** The levels of the decoder, from the latents on; files list all but the ways up from the pixels on. */
export function upLevels(config: Ltx2VideoVaeConfig): UpLevel[] {
  const last = config.decoder_block_out_channels.length - 1;
  return config.decoder_block_out_channels.toReversed().map((channels, i) => {
    const factor = config.upsample_factor[last - i]!;
    return {
      blocks: config.decoder_layers_per_block[last - i]!,
      channels: channels / factor,
      stride: flagAt(config.decoder_spatio_temporal_scaling, last - i)
        ? STRIDES[config.upsample_type[i]!]
        : undefined,
      factor,
      isResidual: flagAt(config.upsample_residual, last - i),
    };
  });
}

function scaleOf(
  { patch_size }: Pick<Fields, "patch_size">,
  levels: readonly { readonly stride: Stride | undefined }[],
): { readonly spatial: number; readonly temporal: number } {
  const strides = levels.flatMap(({ stride }) => stride ? [stride] : []);
  return {
    spatial: strides.reduce((scale, [, rows]) => scale * rows, patch_size),
    temporal: strides.reduce((scale, [frames]) => scale * frames, 1),
  };
}

/** Pixels along a side of a latent, and frames of every latent frame but the first. */
export function ltx2Scale(
  config: Ltx2VideoVaeConfig,
): { readonly spatial: number; readonly temporal: number } {
  return scaleOf(config, upLevels(config));
}
