/** The components of a Qwen-Image model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { checkRotaryAxes, refuse } from "../../config.ts";
import { QWEN_IMAGE_VAE_CONFIG } from "../../autoencoders/wan/config.ts";
import {
  type Component,
  optionalPart,
  type PartsOf,
  partsTable,
} from "../../pipeline/components.ts";
import { controlNets, controlNetSizes, everyControlNet } from "../../pipeline/control_nets.ts";
import { FlowMatchEulerScheduler } from "../../schedulers/mod.ts";
import { QWEN2_5_VL_CONFIG } from "../../text_encoders/qwen2_5_vl.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";

/** Side of a patch, in latents. */
export const PATCH_SIDE = 2;
/** Axes of a token's position: image, row, column. */
const AXES = 3;
export const EPS = 1e-6;

const SIZES = {
  patch_size: z.literal(PATCH_SIDE).default(PATCH_SIDE),
  in_channels: z.int().positive().multipleOf(PATCH_SIDE ** 2).default(64),
  out_channels: z.int().positive().nullish().transform((value) => value ?? 16),
  num_layers: z.int().positive().max(1024).default(60),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  num_attention_heads: z.int().positive().default(24),
  joint_attention_dim: z.int().positive().default(3584),
  axes_dims_rope: z.array(z.int().positive().multipleOf(2)).length(AXES).default([16, 56, 56]),
};

export const QWEN_IMAGE_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("QwenImageTransformer2DModel").default("QwenImageTransformer2DModel"),
  ...SIZES,
  guidance_embeds: z.literal(
    false,
    "transformers that take the guidance as an input are not supported",
  ).default(false),
  /** Given images take part as at the end of the way, without noise. */
  zero_cond_t: z.boolean().default(false),
  /** The timestep's embedding has another one added to it: the first of two. */
  use_additional_t_cond: z.boolean().default(false),
  /** Images are layers, but for the last one, which is given. */
  use_layer3d_rope: z.boolean().default(false),
}).superRefine(checkRotaryAxes).superRefine(({ in_channels, out_channels }, context) => {
  if (out_channels * PATCH_SIDE ** 2 === in_channels) return;
  const patches = `patches of ${PATCH_SIDE} x ${PATCH_SIDE}`;
  refuse(context, "out_channels", `${patches} must have in_channels = ${in_channels}`);
});

export type QwenImageTransformerConfig = z.output<typeof QWEN_IMAGE_TRANSFORMER_CONFIG>;

export type QwenImageSizes = Pick<
  QwenImageTransformerConfig,
  | "num_layers"
  | "num_attention_heads"
  | "attention_head_dim"
  | "joint_attention_dim"
  | "axes_dims_rope"
>;

export const QWEN_IMAGE_CONTROLNET_CONFIG = z.object({
  _class_name: z.literal("QwenImageControlNetModel").default("QwenImageControlNetModel"),
  ...SIZES,
  extra_condition_channels: z.literal(
    [0, PATCH_SIDE ** 2],
    "what ControlNets see beside the picture is at most a mask, 4 channels of a patch",
  ).default(0),
});

export type QwenImageControlNetConfig = z.output<typeof QWEN_IMAGE_CONTROLNET_CONFIG>;

/** Of `model_index.json`: pixels of the copies of edited images for transformer and text encoder. */
const QWEN_IMAGE_SETTINGS = z.object({
  vae_image_size: z.int().positive().default(1024 * 1024),
  condition_image_size: z.int().positive().default(384 * 384),
});

export const EDIT_CLASSES = [
  "QwenImageEditPipeline",
  "QwenImageEditPlusPipeline",
  "QwenImageEditInpaintPipeline",
] as const;

export const LAYERED_CLASS = "QwenImageLayeredPipeline";

const CONTROLNET = optionalPart(QWEN_IMAGE_CONTROLNET_CONFIG, "QwenImageControlNetModel");

export const QWEN_IMAGE_PARTS = partsTable({
  components: {
    textEncoder: {
      classNames: ["Qwen2_5_VLForConditionalGeneration"],
      config: QWEN2_5_VL_CONFIG,
    },
    transformer: {
      classNames: ["QwenImageTransformer2DModel"],
      config: QWEN_IMAGE_TRANSFORMER_CONFIG,
    },
    // Single files of it have the names of Wan 2.1's, which it is but for its numbers.
    vae: {
      classNames: ["AutoencoderKLQwenImage", "AutoencoderKLWan"],
      config: QWEN_IMAGE_VAE_CONFIG,
    },
    ...everyControlNet(CONTROLNET),
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "TAEHV"),
  },
  settings: QWEN_IMAGE_SETTINGS,
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [
    ["transformer.out_channels", "vae.z_dim"],
    ["transformer.joint_attention_dim", "textEncoder.hidden_size"],
    ...controlNetSizes([
      "in_channels",
      "num_attention_heads",
      "attention_head_dim",
      "joint_attention_dim",
    ]),
  ],
  fits: (configs, _, className) => {
    const { transformer, textEncoder, vae } = configs;
    const nets = controlNets(configs);
    const edits = EDIT_CLASSES.some((name) => name === className);
    if (edits && !textEncoder.vision) {
      throw new TypeError(
        "Cannot edit images: the text encoder is a language model alone, which sees none; " +
          "name its tower with --mmproj, or one that has it with --text-encoder, such as Qwen/Qwen-Image-Edit-2509",
      );
    }
    checkLayers(className === LAYERED_CLASS, transformer, vae.in_channels);
    if (nets.length > 0 && (edits || className === LAYERED_CLASS)) {
      throw new TypeError(
        "Cannot use a ControlNet with Qwen-Image-Edit or -Layered: they go with Qwen-Image; omit it",
      );
    }
    if (nets.length > 1 && nets.some((config) => seesMask({ config }))) {
      throw new TypeError(
        "Cannot use a ControlNet for inpainting beside others: it sees an image and its mask, and no control pictures; " +
          "omit it, or the others",
      );
    }
    return [];
  },
  checkTokenizer: requireQwenChat,
});

export type QwenImageParts = PartsOf<typeof QWEN_IMAGE_PARTS>;

function checkLayers(
  isLayered: boolean,
  { use_layer3d_rope }: QwenImageTransformerConfig,
  channels: number,
): void {
  if (use_layer3d_rope !== isLayered) {
    throw new TypeError(
      isLayered
        ? "Cannot split images into layers: the transformer knows none; name that of Qwen/Qwen-Image-Layered with --transformer"
        : `Cannot use the transformer: it makes layers; its model_index.json must say ${LAYERED_CLASS}`,
    );
  }
  if ((channels === 4) === isLayered) return;
  throw new TypeError(
    isLayered
      ? "Cannot split images into layers: the autoencoder has no alpha; name that of Qwen/Qwen-Image-Layered with --vae"
      : "Cannot use the autoencoder: it is for images with alpha; name that of Qwen/Qwen-Image with --vae",
  );
}

export function seesMask(
  { config }: Pick<Component<QwenImageControlNetConfig>, "config">,
): boolean {
  return config.extra_condition_channels > 0;
}

export function controlsByMask(parts: QwenImageParts): boolean {
  return controlNets(parts).some(seesMask);
}
