/** What `config.json` of a ControlNet may say: as a UNet's, without the way up. Defaults are those of `ControlNetModel`. */
import { z } from "zod";
import { checkUnet, UNET_FIELDS } from "./unet_config.ts";

const CHANNELS = z.int().positive().multipleOf(4);
const DEPTH = z.int().min(0).max(1024);

export const SD_CONTROLNET_CONFIG = UNET_FIELDS.extend({
  _class_name: z.literal("ControlNetModel").default("ControlNetModel"),
  up_block_types: UNET_FIELDS.shape.up_block_types.unwrap().min(0).max(0).default([]),
  // Where no block attends it may be 0.
  transformer_layers_per_block: z.union([DEPTH, z.array(DEPTH)]).default(1),
  conditioning_channels: z.literal(3).default(3),
  controlnet_conditioning_channel_order: z.literal("rgb").default("rgb"),
  conditioning_embedding_out_channels: z.array(CHANNELS).min(1).default([16, 32, 96, 256]),
  global_pool_conditions: z.boolean().default(false),
  is_difference: z.literal(
    false,
    "a file that holds a ControlNet's difference to a model, and not its weights, is not supported",
  ).default(false),
}).superRefine(checkUnet);

export type SdControlNetConfig = z.output<typeof SD_CONTROLNET_CONFIG>;

/** Pixels of the picture for each latent. */
export function hintScale(
  { conditioning_embedding_out_channels: widths }: SdControlNetConfig,
): number {
  return 2 ** (widths.length - 1);
}
