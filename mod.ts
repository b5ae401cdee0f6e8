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

import { openEngine, planModel as planRequest } from "./engine/mod.ts";
import type { Engine, ModelPlan } from "./engine/types.ts";
import { BUNDLED_MODEL, engineOptions, folderOf, namedLoras } from "./library/engine_options.ts";
import { Model } from "./library/model.ts";
import type { LoadModelOptions, PlanModelOptions, ServeOptions } from "./library/options.ts";
import { defaultLoraFolders, readEnhancer, type RunningServer, startServer } from "./server/mod.ts";

export type {
  Engine,
  Frames,
  GenerateRequest,
  GenerationControl,
  ImageLimits,
  LoraReport,
  LoraTarget,
  LoraUse,
  ModelInfo,
  ModelParts,
  ModelPlan,
  OffloadableComponent,
  Picture,
  Progress,
  QualityTier,
  RoomRequest,
  Size,
  TaskDefaults,
  TaskType,
} from "./engine/types.ts";
export type { OutputFormat } from "./media/encode.ts";
export { LoraError } from "./models/adapters/lora_error.ts";
export type { ComponentReport, MemoryReport, StageReport } from "./models/mod.ts";
export { X264_PRESETS, type X264Preset } from "./media/video/mod.ts";
export type {
  ClipSource,
  EngineOpener,
  EnhancerTask,
  FormLimits,
  GeneratedVideoParts,
  Log,
  LogFields,
  LogLevel,
  LoraTargetName,
  MergeMode,
  PictureSource,
  PromptEnhancer,
  Recipe,
  RecipeLora,
  RunningServer,
  S3Settings,
  SaveVideoOptions,
  ServerSettings,
  StartLora,
  StartOptions,
} from "./server/mod.ts";
export { formatOfPath, GeneratedImage, GeneratedVideo, version } from "./server/mod.ts";
export { BUNDLED_MODEL } from "./library/engine_options.ts";
export { Model } from "./library/model.ts";
export type {
  DeviceOptions,
  GenerateOptions,
  GenerateVideoOptions,
  LoadModelOptions,
  PlanModelOptions,
  SamplingOptions,
  ServeOptions,
} from "./library/options.ts";

/**
 * Loads a model.
 *
 * @param path a model folder in the diffusers layout, a file with its transformer (safetensors or GGUF), a hub id, or
 * `org/name:file`; the bundled model when left out
 * @param options device and progress
 * @returns the model, ready to generate
 * @throws {Error} when the model is missing or damaged, or no GPU can be used
 */
export async function loadModel(
  path: string = BUNDLED_MODEL,
  options: LoadModelOptions = {},
): Promise<Model> {
  return new Model(await openNamed(path, options), path);
}

/**
 * Says what a request would take of the GPU's memory, stage by stage; nothing is uploaded.
 *
 * @param path as {@link loadModel} takes it
 * @param options device, and the request's size; the model's own where it is left out
 * @returns what each stage would have on the device, and whether it fits
 * @throws {Error} when the model is missing or damaged, or no GPU can be used
 * @throws {RangeError} when the model cannot make such a size
 */
export async function planModel(
  path: string = BUNDLED_MODEL,
  options: PlanModelOptions = {},
): Promise<ModelPlan> {
  const { width, height, numFrames, numInferenceSteps, ...rest } = options;
  return await planRequest(engineOptions(path, rest), {
    ...(width === undefined ? {} : { width }),
    ...(height === undefined ? {} : { height }),
    ...(numFrames === undefined ? {} : { numFrames }),
    ...(numInferenceSteps === undefined ? {} : { numInferenceSteps }),
  });
}

/**
 * Serves a model over HTTP.
 *
 * @param options model, address, folder and settings
 * @returns the server, listening; await its `ready` for the model
 * @throws {Error} when the address cannot be bound or the folder cannot be used
 * @throws {TypeError} when the prompt enhancer's configuration is not valid
 */
export async function serve(options: ServeOptions = {}): Promise<RunningServer> {
  const { modelPath = BUNDLED_MODEL, servedModelName = modelPath, settings, ...rest } = options;
  const { promptEnhancerConfig: config } = options;
  return await startServer({
    ...rest,
    ...(config === undefined
      ? {}
      : { enhancer: readEnhancer(config, (name) => Deno.env.get(name)) }),
    settings: {
      ...{ modelPath, servedModelName },
      ...{
        loraFolders: defaultLoraFolders(folderOf(modelPath)),
        namedLoras: namedLoras(modelPath),
      },
      ...settings,
    },
    openEngine: (onProgress, signal) => {
      let tenths = 0;
      return openNamed(modelPath, {
        ...options,
        signal,
        onLoadProgress: ({ stage, fraction }) => {
          if (stage === "weights") onProgress(fraction);
          if (stage !== "download" || Math.floor(fraction * 10) <= tenths) return;
          tenths = Math.floor(fraction * 10);
          options.log?.(`Fetching ${modelPath}: ${tenths * 10} %`);
        },
        ...(options.log === undefined ? {} : { onNote: options.log }),
      });
    },
  });
}

function openNamed(path: string, options: LoadModelOptions): Promise<Engine> {
  return openEngine(engineOptions(path, options));
}
