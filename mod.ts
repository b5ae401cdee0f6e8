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

import { fileURLToPath } from "node:url";
import { openEngine, planModel as planRequest } from "./engine/mod.ts";
import type {
  Engine,
  EngineOptions,
  LoraUse,
  ModelInfo,
  ModelParts,
  ModelPlan,
  OffloadableComponent,
  Progress,
  QualityTier,
  TaskType,
} from "./engine/types.ts";
import { bundledAdapterFiles } from "./models/adapters/bundled.ts";
import {
  checkFps,
  checkGuidance,
  checkPrompt,
  checkSize,
  checkSteps,
  checkStrength,
  type ClipSource,
  countFrames,
  defaultLoraFolders,
  fitPicture,
  GeneratedImage,
  GeneratedVideo,
  openClip,
  type PictureSource,
  readEnhancer,
  readPictureSources,
  type Recipe,
  resolveSeeds,
  resolveTask,
  type RunningServer,
  type Size,
  sizeFromPicture,
  type StartOptions,
  startServer,
} from "./server/mod.ts";

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

/** The name of the model that comes with the program. */
export const BUNDLED_MODEL = "bundled";

/** Most pictures of one call; all are in memory at its end. */
const MAX_OUTPUTS = 1000;

/** On which GPU, with how much of its memory. */
export interface DeviceOptions {
  /** Device memory that may be taken, in bytes; as much as there is when left out. */
  maxVramBytes?: number;
  /** Components whose weights leave the device after their work, even where there is room; the next one waits for them. */
  offload?: readonly OffloadableComponent[];
  /** Keep host copies of weights that leave the device, so that they are not read from the file again. */
  pinCpuMemory?: boolean;
  /** Unload the model when nothing was asked of it for so long; the next request loads it again. */
  keepAliveMs?: number;
  /** Which adapter to ask for where the machine has several. */
  powerPreference?: "high-performance" | "low-power";
  /** Use the software adapter even where there is a GPU. */
  forceSoftware?: boolean;
  /**
   * How kernels are chosen: by rule (`off`), by what an earlier tuning run measured on this adapter (`cached`, the
   * default), or so and with a tuning run of up to 20 s first where a GPU was not measured yet (`auto`).
   */
  tuning?: "off" | "cached" | "auto";
  /** Deno's own WebGPU, Dawn where its package is installed, or the faster of the two; Deno's when left out. */
  gpuBackend?: "deno" | "dawn" | "auto";
}

/** How {@link loadModel} loads. */
export interface LoadModelOptions extends DeviceOptions {
  /** What does not come from the model's own folder or file. */
  parts?: ModelParts;
  /** Most bytes of adapters kept in memory, those in use aside; 2 GiB when left out. */
  loraCacheBytes?: number;
  /**
   * Called while the model is fetched from the hub (stage `download`), kernels are tuned (`tuning`) and the weights
   * come in (`weights`); `fraction` is 0 to 1.
   */
  onLoadProgress?: (progress: { stage: string; fraction: number }) => void;
  /** Called with lines for a log, such as that kernels are tuned. */
  onNote?: (line: string) => void;
}

/** What {@link planModel} plans for. */
export interface PlanModelOptions extends LoadModelOptions {
  /** Pixels per row. */
  width?: number;
  /** Number of rows. */
  height?: number;
  /** Frames of a clip; 1 for a picture. */
  numFrames?: number;
  /** Denoising steps. */
  numInferenceSteps?: number;
}

/** What pictures and clips are made of; what is left out is the model's own default. */
export interface SamplingOptions {
  /** What to draw. */
  prompt: string;
  /** What to keep away from. */
  negativePrompt?: string;
  /** Pixels per row, a multiple of `info.sizeMultiple`. */
  width?: number;
  /** Number of rows, a multiple of `info.sizeMultiple`. */
  height?: number;
  /** Denoising steps, 1 to `info.maxSteps`. */
  numInferenceSteps?: number;
  /** Weight of classifier-free guidance, at least 0. */
  guidanceScale?: number;
  /** What to make of the inputs, one of `info.supportedTaskTypes`; follows from them when left out. */
  taskType?: TaskType;
  /**
   * Pictures to edit or to start from, at most `info.maxImages`: paths of files, bytes of files, or pixels. They keep
   * sizes of their own within `info.imageLimits` where the model has them. Elsewhere they cover the size of the result,
   * and what is too much at the longer side is cut off evenly.
   */
  images?: readonly PictureSource[];
  /** How much of `video` is made anew, or of a picture by models that have a strength for it; above 0 to 1 (all). */
  strength?: number;
  /** How freely the result may be computed; `lossless` when left out. */
  quality?: QualityTier;
  /** Adapters for this call alone, in the order in which they are applied. */
  loras?: readonly LoraUse[];
  /** Stops the work with an `AbortError`. */
  signal?: AbortSignal;
}

/** What {@link Model.generate} makes. Pictures made from others have the shape of the first when no size is given. */
export interface GenerateOptions extends SamplingOptions {
  /** One seed, which counts up from picture to picture, or one for each; 42 when left out. */
  seed?: number | number[];
  /** How many pictures; 1 when left out. */
  numOutputs?: number;
  /** Called as the work goes on; `index` is the picture's place, counted from 0. */
  onProgress?: (progress: Progress & { index: number }) => void;
}

/** What {@link Model.generateVideo} makes. */
export interface GenerateVideoOptions extends SamplingOptions {
  /** Of the initial noise; 42 when left out. */
  seed?: number;
  /** How many frames, to the nearest number that the model can make; wins over `seconds`. */
  numFrames?: number;
  /** How long the clip is. */
  seconds?: number;
  /** Frames per second of the result; `info.defaults.fps` when left out. */
  fps?: number;
  /** The clip to change: the path of a file, whose sound is kept, or frames. */
  video?: ClipSource;
  /** Called as the work goes on. */
  onProgress?: (progress: Progress) => void;
}

/** A loaded model. */
export class Model implements AsyncDisposable {
  readonly #engine: Engine;
  readonly #name: string;

  /**
   * Takes an engine that is open.
   *
   * @param engine a loaded model; {@link loadModel} makes one
   * @param name goes into the recipes of pictures
   */
  constructor(engine: Engine, name: string = engine.info.modelPath) {
    this.#engine = engine;
    this.#name = name;
  }

  /** What the model's files say of it. */
  get info(): ModelInfo {
    return this.#engine.info;
  }

  /**
   * Makes pictures.
   *
   * @param options the prompt, and what differs from the model's defaults
   * @returns `numOutputs` pictures, at least one
   * @throws {RangeError} for a value that this model cannot serve, before any work begins
   * @throws {LoraError} for an adapter that cannot be used; its `problems` list what is wrong
   * @throws {Error} for a picture that cannot be read; the message names the file
   * @throws {DOMException} named `AbortError` when `signal` fires first
   */
  async generate(options: GenerateOptions): Promise<[GeneratedImage, ...GeneratedImage[]]> {
    const { signal, onProgress, strength, numOutputs = 1 } = options;
    if (strength !== undefined) checkStrength(strength);
    const { info } = this;
    if (!Number.isSafeInteger(numOutputs) || numOutputs < 1 || numOutputs > MAX_OUTPUTS) {
      throw new RangeError(
        `Cannot generate ${numOutputs} pictures: ask for 1 to ${MAX_OUTPUTS} at a time`,
      );
    }
    const seeds = resolveSeeds(options.seed, numOutputs);
    const pictures = await readPictureSources(options.images ?? [], info.maxImages);
    const taskType = this.#task(options, "IMAGE", false);
    const [first] = pictures;
    const size = first ? sizeFromPicture(first, info) : info.defaults;
    const settings = this.#settings(options, taskType, size);
    const images = pictures.map((picture) => fitPicture(picture, settings, info));
    const results: GeneratedImage[] = [];
    for (const [index, seed] of seeds.entries()) {
      const request = {
        ...settings,
        ...{ taskType, seed, numFrames: 1 },
        ...(images.length > 0 ? { images } : {}),
        ...(strength === undefined ? {} : { strength }),
        ...(options.quality ? { quality: options.quality } : {}),
        ...(options.loras ? { loras: options.loras } : {}),
      };
      const { frames, width, height } = await this.#engine.generate(request, {
        ...(signal ? { signal } : {}),
        ...(onProgress ? { onProgress: (progress) => onProgress({ ...progress, index }) } : {}),
      });
      const recipe = this.#recipe(options, { ...settings, seed, width, height });
      results.push(new GeneratedImage(recipe, frames[0]!));
    }
    return results as [GeneratedImage, ...GeneratedImage[]];
  }

  /**
   * Makes a clip.
   *
   * ```ts
   * import { loadModel } from "denoise";
   *
   * await using model = await loadModel("Wan-AI/Wan2.1-T2V-1.3B-Diffusers");
   * const clip = await model.generateVideo({
   *   prompt: "a red circle rolls over grass",
   *   width: 256,
   *   height: 144,
   *   seconds: 1,
   *   numInferenceSteps: 4,
   * });
   * console.log(`${clip.frames.length} frames, ${clip.fps} per second`);
   * await clip.save("circle.mp4", { quality: 80, preset: "medium" });
   * await clip.frame(0).save("first.png");
   * ```
   *
   * @param options the prompt, and what differs from the model's defaults
   * @returns the clip; all its frames are in memory
   * @throws {RangeError} for a value that this model cannot serve, before any work begins
   * @throws {LoraError} for an adapter that cannot be used; its `problems` list what is wrong
   * @throws {Error} for a picture or clip that cannot be read; the message names the file
   * @throws {DOMException} named `AbortError` when `signal` fires first
   */
  async generateVideo(options: GenerateVideoOptions): Promise<GeneratedVideo> {
    const { info } = this;
    const { signal, onProgress, strength, fps = info.defaults.fps } = options;
    const [seed] = resolveSeeds(options.seed, 1) as [number];
    const pictures = await readPictureSources(options.images ?? [], info.maxImages);
    const taskType = this.#task(options, "VIDEO", options.video !== undefined);
    const settings = this.#settings(options, taskType, info.defaults);
    if (strength !== undefined) checkStrength(strength);
    checkFps(fps);
    const clip = options.video === undefined
      ? undefined
      : await openClip(options.video, { signal });
    const own = { ...info.defaults, ...info.taskDefaults[taskType] }.numFrames;
    const numFrames = countFrames(
      { num_frames: options.numFrames, seconds: options.seconds },
      fps,
      { ...info, fps, numFrames: clip ? Math.min(clip.length, info.maxFrames) : own },
    );
    const images = pictures.map((picture) => fitPicture(picture, settings, info));
    const video = await clip?.read({ ...settings, numFrames, fps });
    const { frames, width, height } = await this.#engine.generate({
      ...settings,
      ...{ taskType, seed, numFrames },
      ...(images.length > 0 ? { images } : {}),
      ...(video ? { video } : {}),
      ...(strength === undefined ? {} : { strength }),
      ...(options.quality ? { quality: options.quality } : {}),
      ...(options.loras ? { loras: options.loras } : {}),
    }, { ...(signal ? { signal } : {}), ...(onProgress ? { onProgress } : {}) });
    const recipe = this.#recipe(options, { ...settings, seed, width, height });
    return new GeneratedVideo({
      ...{ recipe, frames, fps },
      ...(clip?.audio ? { audio: clip.audio } : {}),
    });
  }

  /** Frees the GPU. Further calls do nothing. */
  close(): Promise<void> {
    return this.#engine.close();
  }

  /** Frees the GPU, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #task(options: SamplingOptions, output: "IMAGE" | "VIDEO", hasVideo: boolean): TaskType {
    const { taskType, images = [] } = options;
    const query = { output, hasImage: images.length > 0, hasVideo };
    return resolveTask({ ...query, ...(taskType ? { taskType } : {}) }, this.info);
  }

  #recipe({ loras }: SamplingOptions, settings: Omit<Recipe, "model" | "loras">): Recipe {
    return { ...settings, model: this.#name, ...(loras ? { loras } : {}) };
  }

  /** What a call says of prompt, size and sampling, completed and checked. */
  #settings(options: SamplingOptions, taskType: TaskType, size: Size) {
    const { defaults, maxSteps } = this.info;
    const own = { ...defaults, ...this.info.taskDefaults[taskType] };
    const settings = {
      prompt: options.prompt,
      negativePrompt: options.negativePrompt ?? defaults.negativePrompt,
      width: options.width ?? size.width,
      height: options.height ?? size.height,
      numInferenceSteps: options.numInferenceSteps ?? defaults.numInferenceSteps,
      guidanceScale: options.guidanceScale ?? own.guidanceScale,
    };
    checkPrompt("prompt", settings.prompt);
    checkPrompt("negativePrompt", settings.negativePrompt, true);
    checkSize(settings, this.info);
    checkSteps(settings.numInferenceSteps, maxSteps);
    checkGuidance("guidanceScale", settings.guidanceScale);
    return settings;
  }
}

/** How {@link serve} serves. */
export interface ServeOptions extends DeviceOptions, Omit<StartOptions, "openEngine" | "enhancer"> {
  /** A model's folder, file or hub id; the bundled model when left out. */
  modelPath?: string;
  /** What does not come from there. */
  parts?: ModelParts;
  /** The model's public name; `modelPath` when left out. */
  servedModelName?: string;
  /** The text of a prompt enhancer's configuration file. */
  promptEnhancerConfig?: string;
  /** Most bytes of adapters kept in memory, those in use aside; 2 GiB when left out. */
  loraCacheBytes?: number;
}

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
export function serve(options: ServeOptions = {}): RunningServer {
  const { modelPath = BUNDLED_MODEL, servedModelName = modelPath, settings, ...rest } = options;
  const { promptEnhancerConfig: config } = options;
  return startServer({
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
    openEngine: (onProgress) => {
      let tenths = 0;
      return openNamed(modelPath, {
        ...options,
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

function engineOptions(path: string, options: LoadModelOptions): EngineOptions {
  const { maxVramBytes, powerPreference, forceSoftware, gpuBackend, parts } = options;
  const { offload, pinCpuMemory, keepAliveMs, loraCacheBytes, onLoadProgress, onNote } = options;
  return {
    modelPath: folderOf(path),
    namedLoras: namedLoras(path),
    tuning: options.tuning ?? "cached",
    ...(parts === undefined ? {} : { parts }),
    ...(maxVramBytes === undefined ? {} : { maxVramBytes }),
    ...(offload === undefined ? {} : { offload }),
    ...(pinCpuMemory === undefined ? {} : { pinCpuMemory }),
    ...(keepAliveMs === undefined ? {} : { keepAliveMs }),
    ...(powerPreference === undefined ? {} : { powerPreference }),
    ...(forceSoftware === undefined ? {} : { forceSoftware }),
    ...(gpuBackend === undefined ? {} : { gpuBackend }),
    ...(loraCacheBytes === undefined ? {} : { loraCacheBytes }),
    ...(onLoadProgress === undefined ? {} : { onLoadProgress }),
    ...(onNote === undefined ? {} : { onNote }),
  };
}

/** What the engine is told for the name of a model. */
function folderOf(modelPath: string): string {
  return modelPath === BUNDLED_MODEL ? fileURLToPath(BUNDLED_FOLDER) : modelPath;
}

function namedLoras(modelPath: string): Record<string, string> {
  return modelPath === BUNDLED_MODEL ? bundledAdapterFiles() : {};
}

const BUNDLED_FOLDER = new URL("./models/bundled/", import.meta.url);
