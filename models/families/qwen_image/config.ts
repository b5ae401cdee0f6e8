/** The components of a Qwen-Image model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import {
  TINY_DECODER_CONFIG,
  tinySpatialScale,
  tinyTemporalScale,
} from "../../autoencoders/tiny/config.ts";
import { QWEN_IMAGE_VAE_CONFIG } from "../../autoencoders/wan/config.ts";
import { type PartsOf, partsTable, type SizeCheck } from "../../pipeline/components.ts";
import type { FamilyInfo } from "../../pipeline/types.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN2_5_VL_CONFIG } from "../../text_encoders/qwen2_5_vl.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";

/** Side of a patch, in latents. */
export const PATCH_SIDE = 2;
/** Axes of a token's position: image, row, column. */
const AXES = 3;
/** Of all norms. */
export const EPS = 1e-6;

/** `transformer/config.json` of `QwenImageTransformer2DModel`. */
export const QWEN_IMAGE_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("QwenImageTransformer2DModel").default("QwenImageTransformer2DModel"),
  patch_size: z.literal(PATCH_SIDE).default(PATCH_SIDE),
  in_channels: z.int().positive().multipleOf(PATCH_SIDE ** 2).default(64),
  out_channels: z.int().positive().nullish().transform((value) => value ?? 16),
  num_layers: z.int().positive().max(1024).default(60),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  num_attention_heads: z.int().positive().default(24),
  joint_attention_dim: z.int().positive().default(3584),
  guidance_embeds: z.literal(
    false,
    "transformers that take the guidance as an input are not supported",
  ).default(false),
  axes_dims_rope: z.array(z.int().positive().multipleOf(2)).length(AXES).default([16, 56, 56]),
  use_additional_t_cond: z.literal(false, "the layers of Qwen-Image-Layered are not supported")
    .default(false),
  use_layer3d_rope: z.literal(false, "the layers of Qwen-Image-Layered are not supported").default(
    false,
  ),
}).superRefine((config, context) => {
  const refuse = (key: string, message: string) =>
    context.addIssue({ code: "custom", path: [key], message });
  const { axes_dims_rope, attention_head_dim, in_channels, out_channels } = config;
  if (axes_dims_rope.reduce((sum, dim) => sum + dim, 0) !== attention_head_dim) {
    refuse("axes_dims_rope", `its sum must be attention_head_dim = ${attention_head_dim}`);
  }
  if (out_channels * PATCH_SIDE ** 2 !== in_channels) {
    refuse(
      "out_channels",
      `patches of ${PATCH_SIDE} x ${PATCH_SIDE} must have in_channels = ${in_channels}`,
    );
  }
});

/** Parsed {@linkcode QWEN_IMAGE_TRANSFORMER_CONFIG}. */
export type QwenImageTransformerConfig = z.output<typeof QWEN_IMAGE_TRANSFORMER_CONFIG>;

/** Width of the tokens inside of the transformer. */
export function hiddenSize(
  { num_attention_heads, attention_head_dim }: QwenImageTransformerConfig,
): number {
  return num_attention_heads * attention_head_dim;
}

/** Sides of an image by default, in latents. */
const DEFAULT_SIDE = 128;

/** The components. */
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
    tinyDecoder: { classNames: ["TAEHV"], config: TINY_DECODER_CONFIG, isOptional: true },
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler },
  fits: ({ transformer, textEncoder, vae, tinyDecoder }) => {
    const { z_dim, scale_factor_spatial: spatial, scale_factor_temporal: temporal } = vae;
    const { out_channels, joint_attention_dim } = transformer;
    const checks: SizeCheck[] = [
      ["transformer's out_channels", out_channels, "autoencoder's z_dim", z_dim],
      [
        "transformer's joint_attention_dim",
        joint_attention_dim,
        "text encoder's hidden_size",
        textEncoder.hidden_size,
      ],
    ];
    if (tinyDecoder) {
      const [side, frames] = [tinySpatialScale(tinyDecoder), tinyTemporalScale(tinyDecoder)];
      checks.push(
        ["tiny decoder's latent channels", tinyDecoder.latent_channels, "autoencoder's", z_dim],
        ["tiny decoder's pixels a side of a latent", side, "autoencoder's", spatial],
        ["tiny decoder's frames of a latent frame", frames, "autoencoder's", temporal],
      );
    }
    return checks;
  },
  checkTokenizer: requireQwenChat,
});

/** The opened components. */
export type QwenImageParts = PartsOf<typeof QWEN_IMAGE_PARTS>;

/** What its models can do, with the defaults of the published ones. */
export function qwenImageInfo({ vae }: QwenImageParts): FamilyInfo {
  const scale = vae.config.scale_factor_spatial;
  const side = DEFAULT_SIDE * scale;
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: {
      ...{ width: side, height: side, numFrames: 1, fps: 1 },
      ...{ numInferenceSteps: 50, guidanceScale: 4, negativePrompt: " " },
    },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 0.6 },
    sizeMultiple: scale * PATCH_SIDE,
    frameMultiple: 1,
    maxFrames: 1,
    maxImages: 1,
    optionalSettings: ["trueCfgScale", "flowShift", "maxSequenceLength", ...SAMPLING_CHOICES],
  };
}
