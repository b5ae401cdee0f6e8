/**
 * Diffusion models: families, text encoders, autoencoders, schedulers, tokenizers.
 *
 * @module
 */
import type { FamilyFiles } from "./checkpoints/component_format.ts";
import type { ModelFiles } from "./checkpoints/model_files.ts";
import { openModelFiles, type PartPaths } from "./checkpoints/open_model.ts";
import { FLUX2_FILES } from "./families/flux2/files.ts";
import { openFlux2Pipeline } from "./families/flux2/pipeline.ts";
import { WAN_FILES } from "./families/wan/files.ts";
import { openWanPipeline } from "./families/wan/pipeline.ts";
import { Z_IMAGE_FILES } from "./families/z_image/files.ts";
import { openZImagePipeline } from "./families/z_image/pipeline.ts";
import type { Pipeline } from "./pipeline.ts";

export { LoraError } from "./adapters/lora_error.ts";
export { type ModeRequest, type ResolvedMode, resolveModes } from "./adapters/resolve_mode.ts";
export type {
  AdaptableComponent,
  AdaptableModule,
  Adapter,
  AdapterTarget,
  AppliedAdapter,
} from "./adapters/types.ts";
export type { ComponentReport, MemoryReport, StageReport } from "./memory/memory_report.ts";
export { memoryTable } from "./memory/memory_table.ts";
export type { MemoryOptions } from "./memory/model_memory.ts";
export type { PartPaths } from "./checkpoints/open_model.ts";
export type {
  GivenPicture,
  PictureLimits,
  Pipeline,
  PipelineControl,
  PipelineDefaults,
  PipelineInfo,
  PipelineProgress,
  PipelineRequest,
  PipelineResult,
  PipelineTask,
  PipelineTaskDefaults,
  PlanRequest,
  QualityTier,
} from "./pipeline.ts";

/** A model family: the pipelines that it has, and how its files are known. */
interface Family {
  /** Classes that `model_index.json` may name. */
  readonly classNames: readonly string[];
  readonly open: (files: ModelFiles) => Promise<Pipeline>;
  readonly files: FamilyFiles;
}

const FAMILIES: readonly Family[] = [
  {
    classNames: ["WanPipeline", "WanImageToVideoPipeline"],
    open: openWanPipeline,
    files: WAN_FILES,
  },
  {
    classNames: ["ZImagePipeline", "ZImageImg2ImgPipeline"],
    open: openZImagePipeline,
    files: Z_IMAGE_FILES,
  },
  { classNames: ["Flux2KleinPipeline"], open: openFlux2Pipeline, files: FLUX2_FILES },
];

/**
 * Opens the pipeline of a model: checks all files, uploads nothing.
 *
 * @param model its folder, or a file with its transformer
 * @param parts that lie elsewhere
 * @throws {Error} naming the file and what is wrong with it
 */
export async function openPipeline(model: string, parts: PartPaths = {}): Promise<Pipeline> {
  const opened = await openModelFiles(model, parts, FAMILIES.map(({ files }) => files));
  const family = FAMILIES.find(({ classNames }) => classNames.includes(opened.className));
  if (family) return await family.open(opened);
  opened[Symbol.dispose]();
  throw new TypeError(
    `Cannot open "${model}": its model_index.json names the pipeline class "${opened.className}"; ` +
      `this program knows ${FAMILIES.flatMap(({ classNames }) => classNames).join(", ")}`,
  );
}
