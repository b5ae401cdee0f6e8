/** Tiny decoders: `config.json` of diffusers' `AutoencoderTiny`, and single files of it and of TAEHV. */
import { z } from "zod";
import type { TensorSource } from "../../../runtime/mod.ts";
import { type ComponentFormat, shapeOf } from "../../checkpoints/component_format.ts";
import { type Layout, renamed } from "../../layouts.ts";
import { type KlVaeConfig, scaleFactor } from "../kl/config.ts";
import type { HunyuanVideo15VaeConfig } from "../hunyuan_video_15/config.ts";
import type { WanVaeConfig } from "../wan/config.ts";

/** Configuration of either kind of tiny decoder. Defaults are those of diffusers' `AutoencoderTiny`. */
export const TINY_DECODER_CONFIG = z.object({
  _class_name: z.enum(["AutoencoderTiny", "TAEHV"]),
  latent_channels: z.int().positive().default(4),
  decoder_block_out_channels: z.array(z.int().positive()).length(4).default([64, 64, 64, 64]),
  num_decoder_blocks: z.tuple([z.literal(3), z.literal(3), z.literal(3), z.literal(1)])
    .default([3, 3, 3, 1]),
  act_fn: z.literal("relu").default("relu"),
  upsample_fn: z.literal("nearest").default("nearest"),
  upsampling_scaling_factor: z.literal(2).default(2),
  scaling_factor: z.literal(1).default(1),
  shift_factor: z.literal(0).default(0),
  /** TAEHV: frames that each level makes of one. */
  time_upscale: z.array(z.int().min(1).max(2)).length(3).default([1, 1, 1]),
  /** TAEHV: pixels along a side of what the last convolution gives for one position. */
  patch_size: z.int().min(1).max(4).default(1),
});

export type TinyDecoderConfig = z.output<typeof TINY_DECODER_CONFIG>;

export function tinySpatialScale({ patch_size }: Pick<TinyDecoderConfig, "patch_size">): number {
  return 8 * patch_size;
}

/** Frames of one latent frame, the first of a video aside. */
export function tinyTemporalScale(
  { time_upscale }: Pick<TinyDecoderConfig, "time_upscale">,
): number {
  return time_upscale.reduce((product, factor) => product * factor, 1);
}

export function tinyDecoderFit(
  tiny: TinyDecoderConfig | undefined,
  vae: KlVaeConfig | WanVaeConfig | HunyuanVideo15VaeConfig,
): Record<string, number>[] {
  if (!tiny) return [];
  const fit = (name: string, own: number, other: number) => ({
    [`tiny decoder's ${name}`]: own,
    [`autoencoder's ${name}`]: other,
  });
  const [channels, side, frames] = "z_dim" in vae
    ? [vae.z_dim, vae.scale_factor_spatial, vae.scale_factor_temporal]
    : "temporal_compression_ratio" in vae
    ? [vae.latent_channels, vae.spatial_compression_ratio, vae.temporal_compression_ratio]
    : [vae.latent_channels, scaleFactor(vae), undefined];
  return [
    fit("latent channels", tiny.latent_channels, channels),
    fit("pixels a side of a latent", tinySpatialScale(tiny), side),
    ...frames === undefined
      ? []
      : [fit("frames of a latent frame", tinyTemporalScale(tiny), frames)],
  ];
}

/** Layers of an image decoder whose files count the clamping before them as layer 0; diffusers does not. */
const LAYERS = 19;

const MODULES = ["", ".conv.0", ".conv.2", ".conv.4"];

const ORIGINAL: Layout = {
  name: "original tiny decoder",
  prefixes: [],
  entries: Array.from(
    { length: LAYERS },
    (_, i) => MODULES.map((module) => renamed(`${i + 1}${module}`, `decoder.layers.${i}${module}`)),
  ).flat(),
};

const LEVELS = [1, 8, 14, 20] as const;
const GROWTHS = [7, 13, 19] as const;
const LAST = 22;

export const TAESD_FORMAT: ComponentFormat = {
  name: "a tiny decoder of images",
  component: "tiny_decoder",
  className: "AutoencoderTiny",
  namings: [
    { probes: ["decoder.layers.2.conv.0.weight", "decoder.layers.18.weight"] },
    { probes: ["3.conv.0.weight", "19.weight"], layout: ORIGINAL },
  ],
  // FLUX.2's has a norm over the whole image in its first blocks, SANA's more levels.
  fits: (tensors) =>
    tensors.find("decoder.layers.18.weight") !== undefined &&
    tensors.find("decoder.layers.2.pool.0.weight") === undefined &&
    ![...tensors.names].some((name) => /(^|\.)3\.pool\./.test(name)),
  config: (tensors) => ({
    _class_name: "AutoencoderTiny",
    latent_channels: shapeOf(tensors, "decoder.layers.0.weight", 4)[1]!,
    decoder_block_out_channels: [2, 7, 12, 17].map((layer) =>
      shapeOf(tensors, `decoder.layers.${layer}.conv.0.weight`, 4)[0]!
    ),
  }),
};

export const TAEHV_FORMAT: ComponentFormat = {
  name: "a tiny decoder of videos",
  component: "tiny_decoder",
  className: "TAEHV",
  namings: [{ probes: [`decoder.${LAST}.weight`, "decoder.3.conv.0.weight"] }],
  config: (tensors) => ({
    _class_name: "TAEHV",
    latent_channels: shapeOf(tensors, "decoder.1.weight", 4)[1]!,
    decoder_block_out_channels: LEVELS.map((layer) =>
      shapeOf(tensors, `decoder.${layer}.weight`, 4)[0]!
    ),
    time_upscale: GROWTHS.map((layer) => {
      const [more, channels] = growth(tensors, layer);
      return more / channels;
    }),
    patch_size: Math.sqrt(shapeOf(tensors, `decoder.${LAST}.weight`, 4)[0]! / 3),
  }),
};

function growth(tensors: TensorSource, layer: number): [number, number] {
  return shapeOf(tensors, `decoder.${layer}.conv.weight`, 2) as [number, number];
}
