/**
 * What callers of the library may say.
 *
 * @module
 */

import type {
  LoraUse,
  ModelParts,
  OffloadableComponent,
  Progress,
  QualityTier,
  TaskType,
} from "../engine/types.ts";
import type { ClipSource, PictureSource, StartOptions } from "../server/mod.ts";

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

/** How `loadModel()` loads. */
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
  /** Gives up loading. */
  signal?: AbortSignal;
}

/** What `planModel()` plans for. */
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

/** What `Model.generate()` makes. Pictures made from others have the shape of the first when no size is given. */
export interface GenerateOptions extends SamplingOptions {
  /** One seed, which counts up from picture to picture, or one for each; -1 draws one, as leaving it out does. The recipe tells it. */
  seed?: number | number[];
  /** How many pictures; 1 when left out. */
  numOutputs?: number;
  /** Called as the work goes on; `index` is the picture's place, counted from 0. */
  onProgress?: (progress: Progress & { index: number }) => void;
}

/** What `Model.generateVideo()` makes. */
export interface GenerateVideoOptions extends SamplingOptions {
  /** Of the initial noise; -1 draws one, as leaving it out does. The recipe tells it. */
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

/** How `serve()` serves. */
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
