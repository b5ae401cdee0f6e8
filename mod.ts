/**
 * Diffusion models on any GPU, as a library.
 *
 * ```ts
 * import { loadModel } from "denoise";
 *
 * const model = await loadModel();
 * const [image] = await model.generate({ prompt: "a red circle on a blue background", seed: 7 });
 * await image.save("circle.png");
 * await model.close();
 * ```
 *
 * @module
 */

import { planModel as planRequest } from "./engine/mod.ts";
import type { ModelPlan } from "./engine/reports.ts";
import type { LoadModelOptions } from "./generation/mod.ts";
import { engineOptions, openModel } from "./generation/open_model.ts";
import { BUNDLED_MODEL } from "./models/lora/bundled.ts";
import { Model } from "./library/model.ts";
import type { PlanModelOptions } from "./library/options.ts";

export type { ModelParts, OffloadableComponent, ParallelOptions } from "./engine/options.ts";
export type { HandoverEstimate, ModelPlan } from "./engine/reports.ts";
export type {
  AudioFormat,
  ControlBalance,
  ControlNetInfo,
  ControlType,
  CutPrompt,
  DecoderKind,
  EmbeddingInfo,
  Engine,
  Frames,
  GenerateRequest,
  GenerationControl,
  GivenLatents,
  HiresSettings,
  HiresUpscaler,
  Image,
  ImageLimits,
  InputImage,
  IpAdapterMode,
  LayerLimits,
  LoraReport,
  LoraTarget,
  LoraUse,
  ModelInfo,
  NoiseScheduleName,
  OptionalPart,
  OptionalSettings,
  PipelineDefaults,
  PipelineInfo,
  PreparedRequest,
  Progress,
  PromptSyntax,
  QualityTier,
  ReferenceMethod,
  Residence,
  RoomRequest,
  RoomSetting,
  SamplerName,
  SamplingChoices,
  SamplingSettings,
  Size,
  TaskDefaults,
  TaskType,
  Waveform,
} from "./engine/types.ts";
export type { OutputFormat } from "./media/encode.ts";
export type { RgbaImage } from "./media/image.ts";
export { LoraError } from "./models/lora/lora_error.ts";
export type { ComponentReport, MemoryReport, StageReport } from "./models/mod.ts";
export type { BackendChoice, ExchangedBytes } from "./runtime/mod.ts";
export {
  CONTROL_BALANCES,
  HIRES_UPSCALERS,
  REFERENCE_METHODS,
} from "./models/pipeline/settings.ts";
export { NOISE_SCHEDULES, SAMPLERS } from "./models/schedulers/names.ts";
export {
  type AudioFile,
  type VideoFormat,
  X264_PRESETS,
  type X264Preset,
} from "./media/video/mod.ts";
export {
  type DeviceOptions,
  FieldError,
  type FitMode,
  formatOfPath,
  GeneratedImage,
  GeneratedVideo,
  type GeneratedVideoParts,
  type ImageSource,
  type LoadModelOptions,
  type OneOrMore,
  type Recipe,
  type RecipeLora,
  type SaveVideoOptions,
  version,
  type VideoBlobOptions,
  type VideoSource,
} from "./generation/mod.ts";
export { BUNDLED_MODEL } from "./models/lora/bundled.ts";
export { Model } from "./library/model.ts";
export type {
  GenerateOptions,
  GenerateVideoOptions,
  PlanModelOptions,
  SamplingOptions,
  SavedVideo,
} from "./library/options.ts";

/**
 * Loads a model.
 *
 * @param path a name such as `z-image-turbo`, a model folder in the diffusers layout, a file with its transformer (safetensors or GGUF), a hub id, or
 * `org/name:file`; the bundled model by default
 * @param options device and progress
 * @returns the model, ready to generate
 * @throws {Error} when the model is missing or damaged, or no GPU can be used
 */
export async function loadModel(
  path: string = BUNDLED_MODEL,
  options: LoadModelOptions = {},
): Promise<Model> {
  return new Model(await openModel(path, options), path);
}

/**
 * Says what a request would take of the GPU's memory, stage by stage; nothing is uploaded.
 *
 * @param path as {@link loadModel} takes it
 * @param options device, and the request's size; the model's own by default
 * @returns what each stage would have on the device, and whether it fits
 * @throws {Error} when the model is missing or damaged, or no GPU can be used
 * @throws {RangeError} when the model cannot make such a size
 */
export async function planModel(
  path: string = BUNDLED_MODEL,
  options: PlanModelOptions = {},
): Promise<ModelPlan> {
  const { width, height, numFrames, numInferenceSteps, hiresScale, ...rest } = options;
  return await planRequest(engineOptions(path, rest), {
    ...(width === undefined ? {} : { width }),
    ...(height === undefined ? {} : { height }),
    ...(numFrames === undefined ? {} : { numFrames }),
    ...(numInferenceSteps === undefined ? {} : { numInferenceSteps }),
    ...(hiresScale === undefined ? {} : { hiresScale }),
  });
}
