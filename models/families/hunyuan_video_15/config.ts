/** The components of a HunyuanVideo 1.5 model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { HUNYUAN_VIDEO_15_VAE_CONFIG } from "../../autoencoders/hunyuan_video_15/config.ts";
import { refuse } from "../../config.ts";
import { SIGLIP_VISION_CONFIG } from "../../image_encoders/siglip_vision.ts";
import { optionalPart, type PartsOf, partsTable } from "../../pipeline/components.ts";
import type { FamilyInfo } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN2_5_VL_CONFIG } from "../../text_encoders/qwen2_5_vl.ts";
import { T5_CONFIG } from "../../text_encoders/t5.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";
import { nearestShape } from "../../pipeline/shapes.ts";
import { MAX_PROMPT_TOKENS } from "./prompt.ts";
import { videoSizes } from "./sizes.ts";

export const EPS = 1e-6;

/** Axes of a token's position: frame, row, column. */
const AXES = 3;
/** Far more than any model has. */
const MAX_LAYERS = 1024;
const MAX_FRAMES = 1021;

const size = (value: number) => z.int().positive().default(value);
const ONE = z.literal(1, "only tokens of one latent each are supported").default(1);
const FOUR = z.literal(4, "only feed-forward layers of four times the width are supported");

export const HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("HunyuanVideo15Transformer3DModel")
    .default("HunyuanVideo15Transformer3DModel"),
  in_channels: size(65),
  out_channels: size(32),
  num_attention_heads: size(16),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  num_layers: z.int().positive().max(MAX_LAYERS).default(54),
  num_refiner_layers: z.int().positive().max(MAX_LAYERS).default(2),
  mlp_ratio: FOUR.default(4),
  patch_size: ONE,
  patch_size_t: ONE,
  qk_norm: z.literal("rms_norm").default("rms_norm"),
  text_embed_dim: size(3584),
  text_embed_2_dim: size(1472),
  image_embed_dim: size(1152),
  rope_theta: z.number().positive().default(256),
  rope_axes_dim: z.array(z.int().positive().multipleOf(2)).length(AXES).default([16, 56, 56]),
  /** Side of the square whose pixels a video has by default. */
  target_size: z.int().min(64).max(4096).default(640),
  task_type: z.enum(["t2v", "i2v"]).default("i2v"),
  /** Distilled to few steps: it is told where each step goes, too. */
  use_meanflow: z.boolean().default(false),
}).superRefine(({ rope_axes_dim, attention_head_dim, in_channels, out_channels }, context) => {
  if (rope_axes_dim.reduce((sum, dim) => sum + dim, 0) !== attention_head_dim) {
    const message = `its sum must be attention_head_dim = ${attention_head_dim}`;
    refuse(context, "rope_axes_dim", message);
  }
  if (in_channels === 2 * out_channels + 1) return;
  const message = `a sample, an image and a mask of it have ${2 * out_channels + 1}`;
  refuse(context, "in_channels", message);
});

export type HunyuanVideo15TransformerConfig = z.output<typeof HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG>;

/** `guider_config.json` of `ClassifierFreeGuidance`; defaults are those of the class. */
export const GUIDER_CONFIG = z.object({
  _class_name: z.literal("ClassifierFreeGuidance").default("ClassifierFreeGuidance"),
  guidance_scale: z.number().default(7.5),
  guidance_rescale: z.literal(0, "guidance is not rescaled here").default(0),
  use_original_formulation: z.literal(false, "guidance is the usual one here").default(false),
  start: z.literal(0, "guidance is the same in all steps here").default(0),
  stop: z.literal(1, "guidance is the same in all steps here").default(1),
  enabled: z.boolean().default(true),
});

/** Of models that were not distilled, where no folder says it. */
export const USUAL_GUIDER = { guidance_scale: 6 };

export const IMAGE_CLASS = "HunyuanVideo15ImageToVideoPipeline";

export const HUNYUAN_VIDEO_15_PARTS = partsTable({
  components: {
    textEncoder: {
      classNames: [
        "Qwen2_5_VLTextModel",
        "Qwen2_5_VLModel",
        "Qwen2_5_VLForConditionalGeneration",
      ],
      config: QWEN2_5_VL_CONFIG,
    },
    textEncoder2: { classNames: ["T5EncoderModel"], config: T5_CONFIG },
    imageEncoder: optionalPart(SIGLIP_VISION_CONFIG, "SiglipVisionModel"),
    transformer: {
      classNames: ["HunyuanVideo15Transformer3DModel"],
      config: HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG,
    },
    vae: { classNames: ["AutoencoderKLHunyuanVideo15"], config: HUNYUAN_VIDEO_15_VAE_CONFIG },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "TAEHV"),
  },
  encoders: { tokens: "textEncoder", pooled: "textEncoder2" },
  settings: z.object({ guider: GUIDER_CONFIG.prefault(USUAL_GUIDER) }),
  scheduler: { type: FlowMatchEulerScheduler, refused: ["use_dynamic_shifting"] },
  equal: [
    ["transformer.out_channels", "vae.latent_channels"],
    ["transformer.text_embed_dim", "textEncoder.hidden_size"],
    ["transformer.text_embed_2_dim", "textEncoder2.d_model"],
    ["transformer.image_embed_dim", "imageEncoder.hidden_size"],
  ],
  fits: ({ imageEncoder }, _, className) => {
    if (className !== IMAGE_CLASS || imageEncoder) return [];
    throw new TypeError(
      "Cannot use the model: its transformer looks at images through an image encoder, and it has none; " +
        "name one with --image-encoder",
    );
  },
  checkTokenizer: requireQwenChat,
});

export type HunyuanVideo15Parts = PartsOf<typeof HUNYUAN_VIDEO_15_PARTS>;

/** Sampling where the files do not say it: of distilled models their authors' recommendation. */
const STEPS = { usual: 50, few: 12 };

export function hunyuanVideo15Info(
  { className, settings: { guider }, transformer: { config }, vae }: HunyuanVideo15Parts,
): FamilyInfo {
  const { target_size, use_meanflow: takesFewSteps } = config;
  const { spatial_compression_ratio: sizeMultiple, temporal_compression_ratio: temporal } =
    vae.config;
  const sizes = videoSizes(target_size, sizeMultiple);
  const task = className === IMAGE_CLASS ? "I2V" : "T2V";
  const { width, height } = nearestShape({ width: 16, height: 9 }, sizes);
  return {
    supportedTasks: [task],
    defaultTask: task,
    defaults: {
      ...{ width, height },
      numFrames: 1 + 30 * temporal,
      fps: 24,
      numInferenceSteps: takesFewSteps ? STEPS.few : STEPS.usual,
      guidanceScale: guider.enabled ? guider.guidance_scale : 1,
    },
    sizeMultiple,
    frameMultiple: temporal,
    maxFrames: MAX_FRAMES,
    maxImages: task === "I2V" ? 1 : 0,
    ...(task === "I2V" && { imageSizes: sizes }),
    maxSequenceLength: MAX_PROMPT_TOKENS,
    usualSequenceLength: MAX_PROMPT_TOKENS,
    optionalSettings: ["flowShift", "maxSequenceLength", ...SAMPLING_CHOICES],
  };
}
