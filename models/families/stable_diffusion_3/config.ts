/** The components of a Stable Diffusion 3 model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { KL_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { hiddenSize } from "../../config.ts";
import { optionalPart, type PartsOf, partsTable, sameSizes } from "../../pipeline/components.ts";
import { controlNetInfos } from "../../pipeline/control_nets.ts";
import { controlSettings } from "../../pipeline/control_units.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import type { PipelineInfo, PipelineRequest } from "../../pipeline/types.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { CLIP_TEXT_CONFIG } from "../../text_encoders/clip_text.ts";
import { T5_CONFIG } from "../../text_encoders/t5.ts";
import { SettingError } from "../../setting_error.ts";

/** Side of a patch, in latents. */
export const PATCH_SIDE = 2;
/** Far more than any model has. */
const [MAX_LAYERS, MAX_SIDE] = [1024, 1024];

const SIZES = {
  patch_size: z.literal(PATCH_SIDE).default(PATCH_SIDE),
  in_channels: z.int().positive().default(16),
  num_layers: z.int().positive().max(MAX_LAYERS).default(18),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(64),
  num_attention_heads: z.int().positive().default(18),
  pooled_projection_dim: z.int().positive().default(2048),
  /** Blocks in which the image also attends itself alone: all of SD 3.5 Medium's first half. */
  dual_attention_layers: z.array(z.int().nonnegative()).default([]),
  qk_norm: z.literal("rms_norm").nullish(),
};

export const SD3_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("SD3Transformer2DModel").default("SD3Transformer2DModel"),
  ...SIZES,
  out_channels: z.int().positive().default(16),
  joint_attention_dim: z.int().positive().default(4096),
  caption_projection_dim: z.int().positive().default(1152),
  pos_embed_max_size: z.int().positive().max(MAX_SIDE).default(96),
});

export type Sd3TransformerConfig = z.output<typeof SD3_TRANSFORMER_CONFIG>;

export const SD3_CONTROLNET_CONFIG = z.object({
  _class_name: z.literal("SD3ControlNetModel").default("SD3ControlNetModel"),
  ...SIZES,
  /** Without it, blocks see no text, as those of Stability AI. */
  joint_attention_dim: z.int().positive().nullable().default(4096),
  pos_embed_max_size: z.int().positive().max(MAX_SIDE).nullable().default(96),
  /** Where it is false, the transformer's own embedding comes before. */
  use_pos_embed: z.boolean().default(true),
  extra_conditioning_channels: z.int().nonnegative()
    .max(1, "what ControlNets see beside the picture is at most a mask").default(0),
  /** Those that see no summary of the prompt see no shift of the picture's latents either. */
  force_zeros_for_pooled_projection: z.boolean().default(true),
}).refine(
  ({ use_pos_embed: hasOwn, pos_embed_max_size: side }) => !hasOwn || side !== null,
  { path: ["pos_embed_max_size"], message: "it must be a number where use_pos_embed is true" },
);

export type Sd3ControlNetConfig = z.output<typeof SD3_CONTROLNET_CONFIG>;

export type Sd3Sizes = Omit<Sd3TransformerConfig | Sd3ControlNetConfig, "out_channels">;

/** Whether a ControlNet sees an image and its mask instead of a picture. */
export function controlsByMask({ controlnet }: Pick<Sd3Parts, "controlnet">): boolean {
  return controlnet !== undefined && controlnet.config.extra_conditioning_channels > 0;
}

const CLIP_CLASSES = ["CLIPTextModelWithProjection", "CLIPTextModel"];

export const SD3_PARTS = partsTable({
  components: {
    textEncoder: { classNames: CLIP_CLASSES, config: CLIP_TEXT_CONFIG },
    textEncoder2: { classNames: CLIP_CLASSES, config: CLIP_TEXT_CONFIG },
    textEncoder3: optionalPart(T5_CONFIG, "T5EncoderModel"),
    transformer: { classNames: ["SD3Transformer2DModel"], config: SD3_TRANSFORMER_CONFIG },
    vae: { classNames: ["AutoencoderKL"], config: KL_VAE_CONFIG },
    controlnet: optionalPart(SD3_CONTROLNET_CONFIG, "SD3ControlNetModel"),
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "AutoencoderTiny"),
  },
  encoders: { tokens: "textEncoder", pooled: "textEncoder2" },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [
    ["transformer.in_channels", "vae.latent_channels"],
    ["transformer.out_channels", "vae.latent_channels"],
    ["transformer.joint_attention_dim", "textEncoder3.d_model"],
    ["textEncoder.max_position_embeddings", "textEncoder2.max_position_embeddings"],
    ...sameSizes("controlnet", "transformer", [
      "in_channels",
      "num_attention_heads",
      "attention_head_dim",
      "joint_attention_dim",
      "pooled_projection_dim",
    ]),
  ],
  fits: ({ transformer, textEncoder, textEncoder2 }) => {
    const width = textEncoder.hidden_size + textEncoder2.hidden_size;
    if (width > transformer.joint_attention_dim) {
      throw new SyntaxError(
        `Cannot use the text encoders: both CLIPs are ${width} wide, the transformer's joint_attention_dim is ` +
          `${transformer.joint_attention_dim}; they belong to different models, fetch them again`,
      );
    }
    return [
      {
        "transformer's pooled_projection_dim": transformer.pooled_projection_dim,
        "two text encoders' projection_dim": textEncoder.projection_dim +
          textEncoder2.projection_dim,
      },
      {
        "transformer's caption_projection_dim": transformer.caption_projection_dim,
        "width of its blocks": hiddenSize(transformer),
      },
    ];
  },
});

export type Sd3Parts = PartsOf<typeof SD3_PARTS>;

/** Tokens of prompts for T5, as the reference has them: by default, and at most. */
const [USUAL_TOKENS, MAX_TOKENS] = [256, 512];

/** Source: the model cards. Only its name tells the distilled model from the other of its size. */
function sampling({ transformer: { config }, schedulerFile }: Sd3Parts) {
  if (/large[-_ .]?turbo/i.test(schedulerFile.path)) {
    return { numInferenceSteps: 4, guidanceScale: 0 };
  }
  return !config.qk_norm
    ? { numInferenceSteps: 28, guidanceScale: 7 }
    : config.dual_attention_layers.length > 0
    ? { numInferenceSteps: 40, guidanceScale: 4.5 }
    : { numInferenceSteps: 28, guidanceScale: 3.5 };
}

export function sd3Info(parts: Sd3Parts): FamilyInfo {
  const scale = scaleFactor(parts.vae.config);
  const byMask = controlsByMask(parts);
  const known = controlNetInfos([parts.controlnet]);
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), ...sampling(parts) },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: byMask ? 1 : 0.6 },
    controlNets: known,
    ...(byMask && { controlsByMask: true }),
    startsFromLatents: true,
    sizeMultiple: scale * PATCH_SIDE,
    maxImages: 1,
    maxSequenceLength: MAX_TOKENS,
    usualSequenceLength: USUAL_TOKENS,
    optionalSettings: [
      "promptSyntax",
      "maxSequenceLength",
      "clipSkip",
      "skipGuidanceLayers",
      "skipLayerGuidanceScale",
      "skipLayerGuidanceStart",
      "skipLayerGuidanceStop",
      ...SAMPLING_CHOICES,
      ...controlSettings(known, { byMask }),
      ...parts.scheduler.usesDynamicShifting ? [] : ["flowShift" as const],
    ],
  };
}

export function checkSd3Request(
  { width, height, clipSkip = 0, skipGuidanceLayers = [] }: PipelineRequest,
  { transformer: { config }, textEncoder, controlnet }: Sd3Parts,
  { sizeMultiple }: PipelineInfo,
): void {
  const { pos_embed_max_size: side } = config;
  const most = sizeMultiple * Math.min(side, controlnet?.config.pos_embed_max_size ?? side);
  if (Math.max(width, height) > most) {
    throw new RangeError(
      `Cannot make ${width}x${height}: the model has positions for ${most}x${most}; ask for a smaller size`,
    );
  }
  const deepest = textEncoder.config.num_hidden_layers - 1;
  if (clipSkip > deepest) {
    throw new SettingError(
      "clipSkip",
      `Cannot skip ${clipSkip} layers of CLIP: the text encoder has ${
        deepest + 1
      }; ask for ${deepest} at most`,
    );
  }
  const unknown = skipGuidanceLayers.find((layer) => layer >= config.num_layers);
  if (unknown !== undefined) {
    throw new SettingError(
      "skipGuidanceLayers",
      `Cannot skip layer ${unknown} in guidance: the transformer has layers 0 to ${
        config.num_layers - 1
      }`,
    );
  }
}
