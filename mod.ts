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
import { openEngine } from "./engine/mod.ts";
import type { Engine, ModelInfo, Progress, QualityTier } from "./engine/types.ts";
import {
  checkGuidance,
  checkPrompt,
  checkSize,
  checkSteps,
  GeneratedImage,
  readEnhancer,
  resolveSeeds,
  type RunningServer,
  type StartOptions,
  startServer,
} from "./server/mod.ts";

export type {
  Engine,
  Frames,
  GenerateRequest,
  GenerationControl,
  ModelInfo,
  Picture,
  Progress,
  QualityTier,
  TaskDefaults,
  TaskType,
} from "./engine/types.ts";
export type { OutputFormat } from "./media/encode.ts";
export type {
  EngineOpener,
  EnhancerTask,
  FormLimits,
  Log,
  LogFields,
  LogLevel,
  PromptEnhancer,
  Recipe,
  RunningServer,
  S3Settings,
  ServerSettings,
  StartOptions,
} from "./server/mod.ts";
export { formatOfPath, GeneratedImage, version } from "./server/mod.ts";

/** The name of the model that comes with the program. */
export const BUNDLED_MODEL = "bundled";

/** Most pictures of one call; all are in memory at its end. */
const MAX_OUTPUTS = 1000;

/** On which GPU, with how much of its memory. */
export interface DeviceOptions {
  /** Device memory that may be taken, in bytes; all of it when left out. */
  maxVramBytes?: number;
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
  /** Called while kernels are tuned (stage `tuning`) and the weights come in (`weights`); `fraction` is 0 to 1. */
  onLoadProgress?: (progress: { stage: string; fraction: number }) => void;
  /** Called with lines for a log, such as that kernels are tuned. */
  onNote?: (line: string) => void;
}

/** What {@link Model.generate} makes; what is left out is the model's own default. */
export interface GenerateOptions {
  /** What to draw. */
  prompt: string;
  /** What to keep away from. */
  negativePrompt?: string;
  /** Pixels per row, a multiple of `info.sizeMultiple`. */
  width?: number;
  /** Number of rows, a multiple of `info.sizeMultiple`. */
  height?: number;
  /** One seed, which counts up from picture to picture, or one for each; 42 when left out. */
  seed?: number | number[];
  /** Denoising steps, 1 to `info.maxSteps`. */
  numInferenceSteps?: number;
  /** Weight of classifier-free guidance, at least 0. */
  guidanceScale?: number;
  /** How freely the pictures may be computed; `lossless` when left out. */
  quality?: QualityTier;
  /** How many pictures; 1 when left out. */
  numOutputs?: number;
  /** Stops the work; `generate` then throws an `AbortError`. */
  signal?: AbortSignal;
  /** Called as the work goes on; `index` is the picture's place, counted from 0. */
  onProgress?: (progress: Progress & { index: number }) => void;
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
   * @throws {DOMException} named `AbortError` when `signal` fires first
   */
  async generate(options: GenerateOptions): Promise<[GeneratedImage, ...GeneratedImage[]]> {
    const { info } = this;
    const { prompt, signal, onProgress, numOutputs = 1 } = options;
    const { defaults } = info;
    const settings = {
      negativePrompt: options.negativePrompt ?? defaults.negativePrompt,
      width: options.width ?? defaults.width,
      height: options.height ?? defaults.height,
      numInferenceSteps: options.numInferenceSteps ?? defaults.numInferenceSteps,
      guidanceScale: options.guidanceScale ?? defaults.guidanceScale,
    };
    checkPrompt("prompt", prompt);
    checkPrompt("negativePrompt", settings.negativePrompt, true);
    checkSize(settings, info);
    checkSteps(settings.numInferenceSteps, info.maxSteps);
    checkGuidance("guidanceScale", settings.guidanceScale);
    if (!Number.isSafeInteger(numOutputs) || numOutputs < 1 || numOutputs > MAX_OUTPUTS) {
      throw new RangeError(
        `Cannot generate ${numOutputs} pictures: ask for 1 to ${MAX_OUTPUTS} at a time`,
      );
    }
    const images: GeneratedImage[] = [];
    for (const [index, seed] of resolveSeeds(options.seed, numOutputs).entries()) {
      const request = {
        ...settings,
        prompt,
        seed,
        numFrames: 1,
        ...(options.quality ? { quality: options.quality } : {}),
      };
      const { frames, width, height } = await this.#engine.generate(request, {
        ...(signal ? { signal } : {}),
        ...(onProgress ? { onProgress: (progress) => onProgress({ ...progress, index }) } : {}),
      });
      const recipe = { ...settings, prompt, seed, width, height, model: this.#name };
      images.push(new GeneratedImage(recipe, frames[0]!));
    }
    return images as [GeneratedImage, ...GeneratedImage[]];
  }

  /** Frees the GPU. Further calls do nothing. */
  close(): Promise<void> {
    return this.#engine.close();
  }

  /** Frees the GPU, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** How {@link serve} serves. */
export interface ServeOptions extends DeviceOptions, Omit<StartOptions, "openEngine" | "enhancer"> {
  /** A model folder or hub id; the bundled model when left out. */
  modelPath?: string;
  /** The model's public name; `modelPath` when left out. */
  servedModelName?: string;
  /** The text of a prompt enhancer's configuration file. */
  promptEnhancerConfig?: string;
}

/**
 * Loads a model.
 *
 * @param path a model folder in the diffusers layout, or a hub id; the bundled model when left out
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
    settings: { modelPath, servedModelName, ...settings },
    openEngine: (onProgress) =>
      openNamed(modelPath, {
        ...options,
        onLoadProgress: ({ stage, fraction }) => {
          if (stage === "weights") onProgress(fraction);
        },
        ...(options.log === undefined ? {} : { onNote: options.log }),
      }),
  });
}

async function openNamed(path: string, options: LoadModelOptions): Promise<Engine> {
  const { maxVramBytes, powerPreference, forceSoftware, gpuBackend, onLoadProgress, onNote } =
    options;
  return await openEngine({
    modelPath: path === BUNDLED_MODEL ? fileURLToPath(BUNDLED_FOLDER) : path,
    tuning: options.tuning ?? "cached",
    ...(maxVramBytes === undefined ? {} : { maxVramBytes }),
    ...(powerPreference === undefined ? {} : { powerPreference }),
    ...(forceSoftware === undefined ? {} : { forceSoftware }),
    ...(gpuBackend === undefined ? {} : { gpuBackend }),
    ...(onLoadProgress === undefined ? {} : { onLoadProgress }),
    ...(onNote === undefined ? {} : { onNote }),
  });
}

const BUNDLED_FOLDER = new URL("./models/bundled/", import.meta.url);
