/** Diffusion models: families, text encoders, autoencoders, schedulers, tokenizers. */
import { excerpt } from "../hub/json_file.ts";
import type { ModelIndex } from "../hub/model_index.ts";
import { type ModelParts, PARTS } from "./checkpoints/model_parts.ts";
import { folderIndex, openModelFiles } from "./checkpoints/open_model.ts";
import { TAEHV_FORMAT, TAESD_FORMAT } from "./autoencoders/tiny/config.ts";
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
  ReferenceMethod,
  RoomSetting,
  SamplingSettings,
} from "./pipeline/settings.ts";
export type {
  AudioFormat,
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

/**
 * Every family that is known, by what the names of its pipeline classes begin with; nothing else names one. A family's modules
 * are loaded when a model may be of it.
 */
const FAMILIES: readonly (readonly [prefix: string, load: () => Promise<unknown>])[] = [
  ["Wan", async () => (await import("./families/wan/pipeline.ts")).WAN],
  ["WanAnimate", async () => (await import("./families/wan/animate/pipeline.ts")).WAN_ANIMATE],
  // Its encoder of glyphs is a T5 with a tokenizer of its own, and comes before those of others.
  [
    "HunyuanVideo15",
    async () => (await import("./families/hunyuan_video_15/pipeline.ts")).HUNYUAN_VIDEO_15,
  ],
  ["LTX2", async () => (await import("./families/ltx2/pipeline.ts")).LTX2],
  ["ZImage", async () => (await import("./families/z_image/pipeline.ts")).Z_IMAGE],
  ["Flux", async () => (await import("./families/flux1/pipeline.ts")).FLUX1],
  ["Chroma", async () => (await import("./families/chroma/pipeline.ts")).CHROMA],
  ["Flux2", async () => (await import("./families/flux2/pipeline.ts")).FLUX2],
  ["Flux3", async () => (await import("./families/flux3/pipeline.ts")).FLUX3],
  ["QwenImage", async () => (await import("./families/qwen_image/pipeline.ts")).QWEN_IMAGE],
  ["QwenImage21", async () => (await import("./families/qwen_image_21/pipeline.ts")).QWEN_IMAGE_21],
  ["Krea2", async () => (await import("./families/krea2/pipeline.ts")).KREA2],
  ["Anima", async () => (await import("./families/anima/pipeline.ts")).ANIMA],
  ["ErnieImage", async () => (await import("./families/ernie_image/pipeline.ts")).ERNIE_IMAGE],
  ["Ideogram4", async () => (await import("./families/ideogram4/pipeline.ts")).IDEOGRAM4],
  ["Lumina2", async () => (await import("./families/lumina2/pipeline.ts")).LUMINA2],
  ["AuraFlow", async () => (await import("./families/auraflow/pipeline.ts")).AURAFLOW],
  ["OvisImage", async () => (await import("./families/ovis_image/pipeline.ts")).OVIS_IMAGE],
  [
    "LongCatImage",
    async () => (await import("./families/longcat_image/pipeline.ts")).LONGCAT_IMAGE,
  ],
  [
    "StableDiffusion",
    async () => (await import("./families/stable_diffusion/pipeline.ts")).STABLE_DIFFUSION,
  ],
  [
    "StableDiffusionXL",
    async () => (await import("./families/stable_diffusion/pipeline.ts")).STABLE_DIFFUSION_XL,
  ],
  ["Kolors", async () => (await import("./families/stable_diffusion/kolors.ts")).KOLORS],
  [
    "StableDiffusion3",
    async () => (await import("./families/stable_diffusion_3/pipeline.ts")).STABLE_DIFFUSION_3,
  ],
];

/** Loads every family. */
export async function loadFamilies(): Promise<readonly Family[]> {
  return await Promise.all(FAMILIES.map(async ([, load]) => await load() as Family));
}

/** The family of a model in a folder to which nothing else is given; of other models all may be needed. */
async function familiesFor(
  index: ModelIndex | undefined,
  parts: ModelParts,
): Promise<readonly Family[]> {
  const isWhole = PARTS.every((part) => parts[part] === undefined);
  if (!index || !isWhole) return await loadFamilies();
  const { className } = index;
  const [nearest] = FAMILIES.filter(([prefix]) => className.startsWith(prefix))
    .sort(([one], [other]) => other.length - one.length);
  const family = await nearest?.[1]() as Family | undefined;
  return family?.classNames.includes(className) ? [family] : await loadFamilies();
}

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
  const index = await folderIndex(model);
  const families = await familiesFor(index, parts);
  const files = families.map(({ files }) => files);
  const opened = await openModelFiles(model, parts, files, OPTIONAL_FORMATS, index);
  const family = families.find(({ classNames }) => classNames.includes(opened.className));
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
        families.map(({ classNames }) => classNames[0]).join(", ")
      }, and those of the same families`,
  );
}
