/** What `vae/config.json` of the image autoencoders may say. Defaults are those of the diffusers classes. */
import { z } from "zod";
import { refuse } from "../../config.ts";

const BODY = {
  in_channels: z.literal(3).default(3),
  out_channels: z.literal(3).default(3),
  act_fn: z.literal("silu").default("silu"),
  norm_num_groups: z.int().positive().default(32),
  use_quant_conv: z.boolean().default(true),
  use_post_quant_conv: z.boolean().default(true),
  mid_block_add_attention: z.boolean().default(true),
};

const DOWN_BLOCKS = z.array(z.literal("DownEncoderBlock2D")).min(1);
const UP_BLOCKS = z.array(z.literal("UpDecoderBlock2D")).min(1);
const CHANNELS = z.array(z.int().positive()).min(1);

/** `vae/config.json` of `AutoencoderKL`, as SD, FLUX.1 and Z-Image have it. */
export const KL_VAE_CONFIG = z.object({
  ...BODY,
  _class_name: z.literal("AutoencoderKL").default("AutoencoderKL"),
  down_block_types: DOWN_BLOCKS.default(["DownEncoderBlock2D"]),
  up_block_types: UP_BLOCKS.default(["UpDecoderBlock2D"]),
  block_out_channels: CHANNELS.default([64]),
  layers_per_block: z.int().positive().default(1),
  latent_channels: z.int().positive().default(4),
  scaling_factor: z.number().positive().default(0.18215),
  shift_factor: z.number().nullish().transform((value) => value ?? 0),
  /** Whether f16 is too narrow for it; only SDXL's pipelines look. */
  force_upcast: z.boolean().nullish(),
  /** Of each channel, in models that take latents of the same spread in all, as Playground v2.5. */
  latents_mean: z.array(z.number()).nullish(),
  latents_std: z.array(z.number().positive()).nullish(),
}).superRefine(checkLevels).superRefine((config, context) => {
  for (const key of ["latents_mean", "latents_std"] as const) {
    const { length } = config[key] ?? { length: config.latent_channels };
    if (length === config.latent_channels) continue;
    refuse(context, key, `it must have ${config.latent_channels} entries, as latent_channels says`);
  }
});

export type KlVaeConfig = z.output<typeof KL_VAE_CONFIG>;

/** `vae/config.json` of `AutoencoderKLFlux2`, as FLUX.2 has it. */
export const FLUX2_VAE_CONFIG = z.object({
  ...BODY,
  _class_name: z.literal("AutoencoderKLFlux2").default("AutoencoderKLFlux2"),
  down_block_types: DOWN_BLOCKS.default(new Array(4).fill("DownEncoderBlock2D")),
  up_block_types: UP_BLOCKS.default(new Array(4).fill("UpDecoderBlock2D")),
  block_out_channels: CHANNELS.default([128, 256, 512, 512]),
  /** Channels of the decoder, where it is smaller than the encoder. */
  decoder_block_out_channels: CHANNELS.nullish(),
  layers_per_block: z.int().positive().default(2),
  latent_channels: z.int().positive().default(32),
  batch_norm_eps: z.number().positive().default(1e-4),
  patch_size: z.tuple([z.literal(2), z.literal(2)]).default([2, 2]),
}).superRefine(checkLevels);

export type Flux2VaeConfig = z.output<typeof FLUX2_VAE_CONFIG>;

export type KlCoderConfig =
  & Pick<
    KlVaeConfig,
    | "block_out_channels"
    | "layers_per_block"
    | "latent_channels"
    | "norm_num_groups"
    | "out_channels"
    | "use_quant_conv"
    | "use_post_quant_conv"
    | "mid_block_add_attention"
  >
  & Partial<Pick<Flux2VaeConfig, "decoder_block_out_channels">>;

/** Pixels along a side of one latent. */
export function scaleFactor(
  { block_out_channels }: Pick<KlCoderConfig, "block_out_channels">,
): number {
  return 2 ** (block_out_channels.length - 1);
}

function checkLevels(
  config: {
    readonly down_block_types: readonly string[];
    readonly up_block_types: readonly string[];
    readonly block_out_channels: readonly number[];
    readonly decoder_block_out_channels?: readonly number[] | null | undefined;
    readonly norm_num_groups: number;
  },
  context: z.RefinementCtx,
): void {
  const levels = config.block_out_channels.length;
  for (const key of ["down_block_types", "up_block_types"] as const) {
    if (config[key].length === levels) continue;
    refuse(context, key, `it must have ${levels} entries, as block_out_channels has`);
  }
  for (const key of ["block_out_channels", "decoder_block_out_channels"] as const) {
    const channels = config[key] ?? [];
    if (config[key] && channels.length !== levels) {
      refuse(context, key, `it must have ${levels} entries`);
    }
    const groups = config.norm_num_groups;
    if (channels.some((count) => count % groups !== 0)) {
      refuse(context, key, `every entry must be a multiple of norm_num_groups = ${groups}`);
    }
  }
}
