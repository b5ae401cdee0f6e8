/** The components of a Qwen-Image-2.1 model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { QWEN_IMAGE_21_VAE_CONFIG } from "../../autoencoders/wan/config.ts";
import { checkRotaryAxes, refuse } from "../../config.ts";
import { type PartsOf, partsTable } from "../../pipeline/components.ts";
import type { FamilyInfo } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN3_VL_CLASSES, QWEN3_VL_CONFIG } from "../../text_encoders/qwen3_vl.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";

/** Sides are a multiple of so many tokens: the text encoder sees four of them as one. */
const SIDE_TOKENS = 2;
/** Axes of a token's position: place in the sequence, row, column. */
export const AXES = 3;
const DEFAULT_SIDE = 1024;
const MAX_PROMPT_TOKENS = 1024;

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
  /** Of `model_index.json`: the sigmas of models that were distilled to a few steps. */
  settings: z.object({ sample_sigmas: z.array(z.number().positive().max(1)).min(1).nullish() }),
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [
    ["transformer.in_channels", "vae.z_dim"],
    ["transformer.context_in_dim", "textEncoder.hidden_size"],
  ],
  checkTokenizer: requireQwenChat,
});

export type QwenImage21Parts = PartsOf<typeof QWEN_IMAGE_21_PARTS>;

export function qwenImage21Info({ vae, settings, scheduler }: QwenImage21Parts): FamilyInfo {
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: {
      width: DEFAULT_SIDE,
      height: DEFAULT_SIDE,
      numInferenceSteps: settings.sample_sigmas?.length ?? 40,
      guidanceScale: 1,
    },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 0.6 },
    sizeMultiple: vae.config.scale_factor_spatial * SIDE_TOKENS,
    maxImages: 1,
    givesAlpha: true,
    maxSequenceLength: MAX_PROMPT_TOKENS,
    optionalSettings: [
      ...["trueCfgScale", "maxSequenceLength", ...SAMPLING_CHOICES] as const,
      ...scheduler.usesDynamicShifting ? [] : ["flowShift" as const],
    ],
  };
}
