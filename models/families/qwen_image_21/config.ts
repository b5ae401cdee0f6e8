/** The components of a Qwen-Image-2.1 model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { QWEN_IMAGE_21_VAE_CONFIG } from "../../autoencoders/wan/config.ts";
import { checkRotaryAxes, refuse } from "../../config.ts";
import { type PartsOf, partsTable } from "../../pipeline/components.ts";
import type { FamilyInfo } from "../../pipeline/family_info.ts";
import type { ImageLimits } from "../../pipeline/types.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN3_VL_CLASSES, QWEN3_VL_CONFIG } from "../../text_encoders/qwen3_vl.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";

/** Sides are a multiple of so many tokens: the text encoder sees four of them as one. */
const SIDE_TOKENS = 2;
/** Axes of a token's position: place in the sequence, row, column. */
export const AXES = 3;
const DEFAULT_SIDE = 1024;
const MAX_PROMPT_TOKENS = 1024;
/** References of an edit; those of all models before it were trained with three. */
const MAX_REFERENCES = 3;
/** What is allowed of them: they are brought to the model's own number of pixels. */
const REFERENCE_LIMITS: ImageLimits = {
  multiple: 1,
  maxPixels: 2048 * 2048,
  minSide: 16,
  maxAspect: 8,
  shapeMultiple: 32,
};

const size = (value: number) => z.int().positive().default(value);

export const QWEN_IMAGE_21_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("QwenImage21Transformer2DModel").default("QwenImage21Transformer2DModel"),
  patch_size: z.literal(1).default(1),
  in_channels: size(64),
  out_channels: z.int().positive().nullish(),
  num_layers: z.int().positive().max(1024).default(32),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  num_attention_heads: size(32),
  context_in_dim: size(4096),
  mlp_ratio: size(3),
  axes_dims_rope: z.array(z.int().positive().multipleOf(2)).length(AXES).default([16, 56, 56]),
  eps: z.number().positive().max(1).default(1e-6),
  causal_condition: z.literal(
    true,
    "transformers whose text changes from step to step are not supported",
  ).default(true),
}).superRefine(checkRotaryAxes).superRefine(({ in_channels, out_channels }, context) => {
  if ((out_channels ?? in_channels) === in_channels) return;
  refuse(context, "out_channels", `it must be in_channels = ${in_channels}`);
});

export type QwenImage21TransformerConfig = z.output<typeof QWEN_IMAGE_21_TRANSFORMER_CONFIG>;

export const QWEN_IMAGE_21_PARTS = partsTable({
  components: {
    textEncoder: { classNames: QWEN3_VL_CLASSES, config: QWEN3_VL_CONFIG },
    transformer: {
      classNames: ["QwenImage21Transformer2DModel"],
      config: QWEN_IMAGE_21_TRANSFORMER_CONFIG,
    },
    vae: { classNames: ["AutoencoderKLQwenImage21"], config: QWEN_IMAGE_21_VAE_CONFIG },
  },
  /** Of `model_index.json`. */
  settings: z.object({
    /** Of models that were distilled to a few steps. */
    sample_sigmas: z.array(z.number().positive().max(1)).min(1).nullish(),
    /** Pixels along a side of the copies of references, were they squares; smaller ones are not what the tower takes. */
    output_resolution: z.int().min(256).default(DEFAULT_SIDE),
  }),
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [
    ["transformer.in_channels", "vae.z_dim"],
    ["transformer.context_in_dim", "textEncoder.hidden_size"],
  ],
  checkTokenizer: requireQwenChat,
});

export type QwenImage21Parts = PartsOf<typeof QWEN_IMAGE_21_PARTS>;

/** Whether the text encoder has a vision tower, whose patches are as large as latents. */
export function seesImages({ textEncoder, vae }: QwenImage21Parts): boolean {
  return textEncoder.config.vision?.patch_size === vae.config.scale_factor_spatial;
}

/** Without a vision tower an image is one to start from. */
export function qwenImage21Info(parts: QwenImage21Parts): FamilyInfo {
  const { vae, settings, scheduler } = parts;
  const isSeeing = seesImages(parts);
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: {
      width: DEFAULT_SIDE,
      height: DEFAULT_SIDE,
      numInferenceSteps: settings.sample_sigmas?.length ?? 40,
      guidanceScale: 1,
    },
    taskDefaults: isSeeing ? {} : { TI2I: { strength: 0.6 } },
    ...(isSeeing && { imageLimits: REFERENCE_LIMITS }),
    inpainting: { strength: 0.6 },
    sizeMultiple: vae.config.scale_factor_spatial * SIDE_TOKENS,
    maxImages: isSeeing ? MAX_REFERENCES : 1,
    givesAlpha: true,
    maxSequenceLength: MAX_PROMPT_TOKENS,
    optionalSettings: [
      ...["trueCfgScale", "maxSequenceLength", ...SAMPLING_CHOICES] as const,
      ...scheduler.usesDynamicShifting ? [] : ["flowShift" as const],
    ],
  };
}
