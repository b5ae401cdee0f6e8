/**
 * Diffusion models: families, text encoders, autoencoders, schedulers, tokenizers.
 *
 * @module
 */
import { type ModelIndex, readModelIndex } from "../hub/model_index.ts";
import { openWanPipeline } from "./families/wan/pipeline.ts";
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
export type {
  Pipeline,
  PipelineControl,
  PipelineDefaults,
  PipelineInfo,
  PipelineProgress,
  PipelineRequest,
  PipelineResult,
  PipelineTask,
  PipelineTaskDefaults,
  QualityTier,
} from "./pipeline.ts";

/** Pipelines by the class that `model_index.json` names. */
const PIPELINES: Readonly<Record<string, (index: ModelIndex) => Promise<Pipeline>>> = {
  WanPipeline: openWanPipeline,
  WanImageToVideoPipeline: openWanPipeline,
};

/**
 * Opens the pipeline of a model folder: checks all files, uploads nothing.
 *
 * @throws {Error} naming the file and what is wrong with it
 */
export async function openPipeline(folder: string): Promise<Pipeline> {
  const index = await readModelIndex(folder);
  const open = Object.hasOwn(PIPELINES, index.className) ? PIPELINES[index.className] : undefined;
  if (!open) {
    throw new TypeError(
      `Cannot open "${folder}": its model_index.json names the pipeline class "${index.className}"; ` +
        `this program knows ${Object.keys(PIPELINES).join(", ")}`,
    );
  }
  return await open(index);
}
