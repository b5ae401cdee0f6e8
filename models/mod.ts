/** Diffusion models: families, text encoders, autoencoders, schedulers, tokenizers. */
import { excerpt } from "../hub/json_file.ts";
import type { ModelParts } from "./checkpoints/model_parts.ts";
import { openModelFiles } from "./checkpoints/open_model.ts";
import { TAEHV_FORMAT, TAESD_FORMAT } from "./autoencoders/tiny/config.ts";
import { ANIMA } from "./families/anima/pipeline.ts";
import { CHROMA } from "./families/chroma/pipeline.ts";
import { ERNIE_IMAGE } from "./families/ernie_image/pipeline.ts";
import { FLUX1 } from "./families/flux1/pipeline.ts";
import { FLUX2 } from "./families/flux2/pipeline.ts";
import { FLUX3 } from "./families/flux3/pipeline.ts";
import { HUNYUAN_VIDEO_15 } from "./families/hunyuan_video_15/pipeline.ts";
import { IDEOGRAM4 } from "./families/ideogram4/pipeline.ts";
import { KREA2 } from "./families/krea2/pipeline.ts";
import { LTX2 } from "./families/ltx2/pipeline.ts";
import { LUMINA2 } from "./families/lumina2/pipeline.ts";
import { QWEN_IMAGE } from "./families/qwen_image/pipeline.ts";
import { QWEN_IMAGE_21 } from "./families/qwen_image_21/pipeline.ts";
import { STABLE_DIFFUSION, STABLE_DIFFUSION_XL } from "./families/stable_diffusion/pipeline.ts";
import { STABLE_DIFFUSION_3 } from "./families/stable_diffusion_3/pipeline.ts";
import { WAN_ANIMATE } from "./families/wan/animate/pipeline.ts";
import { WAN } from "./families/wan/pipeline.ts";
import { Z_IMAGE } from "./families/z_image/pipeline.ts";
import { RIFE_FORMAT } from "./frame_interpolators/ifnet.ts";
import { openFamily } from "./pipeline/diffusion_pipeline.ts";
import type { Family } from "./pipeline/family.ts";
import type { Ranks } from "./sharing/ranks.ts";
import type { Pipeline } from "./pipeline/types.ts";
import { COMPACT_UPSCALER_FORMAT, RRDB_UPSCALER_FORMAT } from "./upscalers/upscaler.ts";

export type { NoiseScheduleName, SamplerName } from "./schedulers/names.ts";
export type { SamplingChoices } from "./schedulers/mod.ts";
export { LoraError } from "./lora/lora_error.ts";
export { type ModeRequest, type ResolvedMode, resolveModes } from "./lora/resolve_mode.ts";
export type {
  AdaptableComponent,
  AdaptableModule,
  AppliedLora,
  Lora,
  LoraComponent,
} from "./lora/types.ts";
export type { ComponentReport, MemoryReport, StageReport } from "./memory/memory_report.ts";
export { memoryTable } from "./memory/memory_report.ts";
export type { Ranks } from "./sharing/ranks.ts";
export { type MemoryOptions, type PlanRoom, roomOf } from "./memory/model_memory.ts";
export type { ModelParts } from "./checkpoints/model_parts.ts";
export { mostImages } from "./pipeline/check_request.ts";
export { Composition, isInpainting } from "./pipeline/inpainting.ts";
export type { PromptSyntax } from "./prompt_syntax/parse_prompt.ts";
export type {
  ControlBalance,
  ControlType,
  DecoderKind,
  HiresSettings,
  HiresUpscaler,
  IpAdapterMode,
  OptionalSettings,
  QualityTier,
  RoomSetting,
  SamplingSettings,
} from "./pipeline/settings.ts";
export type {
  ControlNetInfo,
  CutPrompt,
  EmbeddingInfo,
  GivenLatents,
  ImageLimits,
  InputImage,
  LayerLimits,
  OptionalPart,
  Pipeline,
  PipelineControl,
  PipelineDefaults,
  PipelineInfo,
  PipelineProgress,
  PipelineRequest,
  PipelineResult,
  PlanRequest,
  TaskDefaults,
  TaskType,
} from "./pipeline/types.ts";

/** Every family that is known; nothing else names one. */
export const FAMILIES: readonly Family[] = [
  ...[
    WAN,
    WAN_ANIMATE,
    // Its encoder of glyphs is a T5 with a tokenizer of its own, and comes before those of others.
    HUNYUAN_VIDEO_15,
    LTX2,
    Z_IMAGE,
    FLUX1,
    CHROMA,
    FLUX2,
    FLUX3,
    QWEN_IMAGE,
    QWEN_IMAGE_21,
    KREA2,
    ANIMA,
    ERNIE_IMAGE,
    IDEOGRAM4,
    LUMINA2,
    STABLE_DIFFUSION,
    STABLE_DIFFUSION_XL,
    STABLE_DIFFUSION_3,
  ],
].map((family) => family as Family);

export const OPTIONAL_FORMATS = [
  TAEHV_FORMAT,
  TAESD_FORMAT,
  COMPACT_UPSCALER_FORMAT,
  RRDB_UPSCALER_FORMAT,
  RIFE_FORMAT,
];

/**
 * Opens the pipeline of a model: checks all files, uploads nothing.
 * @throws {Error} naming the file and what is wrong with it
 */
export async function openPipeline(
  model: string,
  parts: ModelParts = {},
  ranks?: Ranks,
): Promise<Pipeline> {
  const families = FAMILIES.map(({ files }) => files);
  const opened = await openModelFiles(model, parts, families, OPTIONAL_FORMATS);
  const family = FAMILIES.find(({ classNames }) => classNames.includes(opened.className));
  if (family) {
    const { embeddings, steersWhenAsked } = parts;
    return await openFamily(family, opened, { ranks, embeddings, steersWhenAsked });
  }
  opened[Symbol.dispose]();
  throw new TypeError(
    `Cannot open "${model}": its model_index.json names the pipeline class ${
      excerpt(opened.className)
    }; ` +
      `this program knows ${
        FAMILIES.map(({ classNames }) => classNames[0]).join(", ")
      }, and those of the same families`,
  );
}
