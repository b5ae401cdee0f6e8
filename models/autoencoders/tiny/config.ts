/**
 * What is said of tiny decoders: `config.json` of diffusers' `AutoencoderTiny`, and what TAEHV's files tell by their
 * tensors.
 */
import { z } from "zod";

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

/** Pixels along a side of one latent. */
export function tinySpatialScale({ patch_size }: Pick<TinyDecoderConfig, "patch_size">): number {
  return 8 * patch_size;
}

/** Frames of one latent frame, the first of a video aside. */
export function tinyTemporalScale(
  { time_upscale }: Pick<TinyDecoderConfig, "time_upscale">,
): number {
  return time_upscale.reduce((product, factor) => product * factor, 1);
}

/**
 * What a tiny decoder and the autoencoder whose place it takes must have in common: names and values by pairs.
 *
 * @param vae its latent channels, pixels a side of a latent, and frames of a latent frame where it makes videos
 */
export function tinyDecoderFit(
  tiny: TinyDecoderConfig | undefined,
  { channels, side, frames }: {
    readonly channels: number;
    readonly side: number;
    readonly frames?: number;
  },
): (readonly [name: string, value: number, otherName: string, other: number])[] {
  if (!tiny) return [];
  const pairs = [
    ["latent channels", tiny.latent_channels, channels],
    ["pixels a side of a latent", tinySpatialScale(tiny), side],
    ["frames of a latent frame", tinyTemporalScale(tiny), frames],
  ] as const;
  return pairs.flatMap(([name, own, other]) =>
    other === undefined ? [] : [[`tiny decoder's ${name}`, own, "autoencoder's", other] as const]
  );
}
