/** What callers of the library may say. */

import type { Image, LoraUse, Progress, SamplingSettings, TaskType } from "../engine/types.ts";
import type {
  FitMode,
  ImageSource,
  LoadModelOptions,
  OneOrMore,
  Recipe,
  VideoSource,
} from "../generation/mod.ts";

/** What `planModel()` plans for. */
export interface PlanModelOptions extends LoadModelOptions {
  /** Pixels per row. */
  width?: number;
  /** Number of rows. */
  height?: number;
  /** Frames of a video; 1 for an image. */
  numFrames?: number;
  /** Denoising steps. */
  numInferenceSteps?: number;
  /** How many times longer a hires fix makes the sides: its second pass is planned. */
  hiresScale?: number;
}

/** Options of images and videos; the defaults are the model's own. */
export interface SamplingOptions extends OneOrMore<Partial<SamplingSettings>> {
  /** What to draw. */
  prompt: string;
  /** Whether `{red|green}` in the prompt is one of the words, chosen by each result's seed; not by default. */
  wildcards?: boolean;
  /** Width in pixels, a multiple of `info.sizeMultiple`. */
  width?: number;
  /** Height in pixels, a multiple of `info.sizeMultiple`. */
  height?: number;
  /** What to make of the inputs, one of `info.supportedTasks`; follows from them by default. */
  taskType?: TaskType;
  /**
   * Images to edit or to start from, at most `info.maxImages`: paths of files, bytes of files, or pixels. They keep
   * sizes of their own within `info.imageLimits` where the model has them. Elsewhere they come to the size of the result
   * as `fit` says.
   */
  images?: readonly ImageSource[];
  /**
   * How images meet the size of the result: `cover`, the default, cuts off evenly what is too much at the longer side,
   * `contain` shows all of it on black, `stretch` changes its shape, as diffusers does.
   */
  fit?: FitMode;
  /** Images of what shall be seen in the result, at most `info.maxReferences`: VACE, Krea 2, or an IP-Adapter (`ipAdapterScale`). */
  references?: readonly ImageSource[];
  /** LoRAs for this call alone, in the order in which they are applied. */
  loras?: readonly LoraUse[];
  /** How many times an unfinished result is shown to `onPreview`, evenly over the steps; default 3. */
  previews?: number;
  /** Called with a result as it would be if it were finished now; of a video, its first frame. */
  onPreview?: (preview: Image) => void;
  /** Stops the work with an `AbortError`. */
  signal?: AbortSignal;
}

/**
 *  What `Model.generate()` makes. Images made from others have the shape of the first when no size is given, with a mask
 * its size.
 */
export interface GenerateOptions extends SamplingOptions {
  /**
   * Which pixels of the first image are redrawn, where `info.inpainting` is there: those that are white in an image of
   * its shape, or transparent in one with alpha. An image with holes, alone and without a mask, is its own.
   */
  mask?: ImageSource;
  /**
   * What the model's ControlNet steers the image by, see `controlType` and `controlMode`; a list for several, of which
   * `controlNet` says who sees which. It comes to the size of the result as `fit` says, and the first gives its shape to a
   * result for which nothing else does.
   */
  control?: ImageSource | readonly ImageSource[];
  /**
   * Where the image shows each of `references` that an IP-Adapter sees: the white pixels of an image, which comes to the size
   * of the result as `fit` says. Everywhere by default.
   */
  referenceMasks?: readonly ImageSource[];
  /** One seed, which counts up from image to image, or one for each; -1 draws one, as leaving it out does. The recipe tells it. */
  seed?: number | number[];
  /** How many images; default 1. */
  numOutputs?: number;
  /** Called as the work goes on; `index` is the image's place, counted from 0. */
  onProgress?: (progress: Progress & { index: number }) => void;
}

/** What `Model.generateVideo()` makes. */
export interface GenerateVideoOptions extends SamplingOptions {
  /** Seed of the initial noise; -1 draws one, as leaving it out does. The recipe tells it. */
  seed?: number;
  /** How many frames, to the nearest number that the model can make; wins over `seconds`. */
  numFrames?: number;
  /** How long the video is. */
  seconds?: number;
  /** Frames per second of the result; default `info.defaults.fps`. */
  fps?: number;
  /** The video to change, to steer by, to follow or to go on from: the path of a file, whose sound is kept, or frames. */
  video?: VideoSource;
  /**
   * A sound that the video follows, and has, where `info.takesAudio` is there: the path of a file, of a video too. It is cut, or
   * silence follows, where it is not as long as the video.
   */
  audio?: string;
  /** Whether the video has sound: that which a model with `info.givesAudio` makes, else that of the file; true by default. */
  enableAudio?: boolean;
  /**
   * Which pixels of the video are redrawn, where `info.takesMasks`: the white ones of a video, or of a single image
   * as a list of one.
   */
  mask?: VideoSource;
  /** Called as the work goes on. */
  onProgress?: (progress: Progress) => void;
}

/** A video that was written to a file. */
export interface SavedVideo {
  /** How it was made, with its size. */
  recipe: Recipe;
  /** Frames per second. */
  fps: number;
  /** How many frames it has; 0 where the file is sound alone. */
  frameCount: number;
}
