/** What `config.json` of a ControlNet or an adapter may say. Defaults are those of diffusers. */
import { z } from "zod";
import { LLLITE_CONFIG, type LlliteConfig } from "./lllite.ts";
import { checkUnet, UNET_FIELDS } from "./unet_config.ts";

const COUNT = z.int().positive().max(1024);
const CHANNELS = z.int().positive().multipleOf(4);
const DEPTH = z.int().min(0).max(1024);

/** What pictures of Union ControlNets show, in the order of their numbers; ProMax knows all, the first Union six. */
const UNION_MODES = [
  ...["openpose", "depth", "scribble", "canny", "normal", "segment", "tile", "repaint"],
] as const;

function unsupported(what: string) {
  return z.literal(false, `${what} is not supported`).default(false);
}

/** As a UNet's, without the way up: `ControlNetModel` and `ControlNetUnionModel`. */
export const SD_CONTROLNET_CONFIG = UNET_FIELDS.extend({
  _class_name: z.enum(["ControlNetModel", "ControlNetUnionModel", "ControlNetModel_Union"])
    .default("ControlNetModel"),
  up_block_types: UNET_FIELDS.shape.up_block_types.unwrap().min(0).max(0).default([]),
  // Where no block attends it may be 0.
  transformer_layers_per_block: z.union([DEPTH, z.array(DEPTH)]).default(1),
  conditioning_channels: z.literal(3).default(3),
  controlnet_conditioning_channel_order: z.literal("rgb").default("rgb"),
  conditioning_embedding_out_channels: z.array(CHANNELS).min(1).default([16, 32, 96, 256]),
  global_pool_conditions: z.boolean().default(false),
  num_control_type: COUNT.max(UNION_MODES.length).default(6),
  num_trans_layer: COUNT.default(1),
  is_difference: unsupported(
    "a file that holds a ControlNet's difference to a model, and not its weights,",
  ),
  /** Whether the file holds low-rank changes of the UNet (Control-LoRA). */
  is_low_rank: z.boolean().default(false),
}).superRefine(checkUnet);

export type SdControlNetConfig = z.output<typeof SD_CONTROLNET_CONFIG>;

export const T2I_ADAPTER_CONFIG = z.object({
  _class_name: z.literal("T2IAdapter").default("T2IAdapter"),
  in_channels: z.union([z.literal(1), z.literal(3)]).default(3),
  channels: z.array(CHANNELS).min(1).default([320, 640, 1280, 1280]),
  num_res_blocks: COUNT.default(2),
  downscale_factor: COUNT.default(8),
  adapter_type: z.enum(["full_adapter", "full_adapter_xl", "light_adapter"])
    .default("full_adapter"),
});

export type T2iAdapterConfig = z.output<typeof T2I_ADAPTER_CONFIG>;

export const SD_CONTROL_CONFIG = z.discriminatedUnion("_class_name", [
  SD_CONTROLNET_CONFIG,
  T2I_ADAPTER_CONFIG,
  LLLITE_CONFIG,
]);

export type SdControlConfig = z.output<typeof SD_CONTROL_CONFIG>;

export const SD_CONTROL_CLASSES = [
  ...["ControlNetModel", "ControlNetUnionModel", "ControlNetModel_Union", "T2IAdapter"],
  "ControlNetLLLite",
] as const;

export function isAdapter(config: SdControlConfig): config is T2iAdapterConfig {
  return config._class_name === "T2IAdapter";
}

export function isLllite(config: SdControlConfig): config is LlliteConfig {
  return config._class_name === "ControlNetLLLite";
}

/** What pictures may show, where the ControlNet asks; old files of such do not say so in their configuration. */
export function unionModes(
  { config, weights }: {
    readonly config: SdControlConfig;
    readonly weights: { has(name: string): boolean };
  },
): readonly string[] | undefined {
  if (isAdapter(config) || isLllite(config) || !weights.has("task_embedding")) return undefined;
  return UNION_MODES.slice(0, config.num_control_type);
}

/** Pixels of the picture for each latent. */
export function hintScale(config: Exclude<SdControlConfig, LlliteConfig>): number {
  if (!isAdapter(config)) return 2 ** (config.conditioning_embedding_out_channels.length - 1);
  // The first level of SDXL takes what it gives behind its downsampler.
  return config.adapter_type === "full_adapter_xl"
    ? config.downscale_factor / 2
    : config.downscale_factor;
}
