/** A loaded model, as the library gives it. */

import { resultRate, resultSize } from "../engine/result_size.ts";
import type {
  Engine,
  Frames,
  GenerateRequest,
  GenerationControl,
  Image,
  LoraUse,
  ModelInfo,
  SamplingSettings,
  TaskType,
} from "../engine/types.ts";
import {
  checkControlMode,
  checkFps,
  checkMaskShape,
  checkPrompt,
  checkReferenceCount,
  checkSize,
  checkTakesControl,
  checkVideoPath,
  completeSettings,
  controlSize,
  countFrames,
  FieldError,
  fitImage,
  fitMask,
  fitMasked,
  fitReference,
  fitToResult,
  GeneratedImage,
  GeneratedVideo,
  maskedRules,
  openVideo,
  readImageSources,
  readPixels,
  type Recipe,
  resolveSeeds,
  resolveTask,
  saveFrames,
  type SaveVideoOptions,
  type Size,
  sizeFromImage,
  sizeFromMasked,
  sizeWithin,
  takesMask,
  type VideoStream,
} from "../generation/mod.ts";
import { fit } from "../media/fit.ts";
import type { PixelImage } from "../media/image.ts";
import { hasHoles } from "../media/mask.ts";
import type {
  GenerateOptions,
  GenerateVideoOptions,
  SamplingOptions,
  SavedVideo,
} from "./options.ts";

/** What a call says of its result, completed and checked. */
interface Settings extends SamplingSettings, Size {
  readonly prompt: string;
  readonly taskType: TaskType;
  readonly loras?: readonly LoraUse[];
}

/** Most images of one call; all are in memory at its end. */
const MAX_OUTPUTS = 1000;

/** Previews of a call that does not say how many. */
const PREVIEWS = 3;

function previewControl(
  { previews = PREVIEWS, onPreview }: SamplingOptions,
): Pick<GenerationControl, "previews" | "onPreview"> {
  return onPreview ? { previews, onPreview: (preview) => onPreview(preview) } : {};
}

/** A loaded model. */
export class Model implements AsyncDisposable {
  readonly #engine: Engine;
  readonly #name: string;

  /**
   * Takes an engine that is open.
   *
   * @param engine a loaded model; `loadModel()` makes one
   * @param name goes into the recipes of images
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
   * Makes images.
   *
   * @param options the prompt, and what differs from the model's defaults
   * @returns `numOutputs` images, at least one; of a model with layers all layers of each, those at the back first
   * @throws {RangeError} for a value that this model cannot serve, before any work begins
   * @throws {LoraError} for a LoRA that cannot be used; its `problems` list what is wrong
   * @throws {Error} for an image that cannot be read; the message names the file
   * @throws {DOMException} named `AbortError` when `signal` fires first
   */
  async generate(options: GenerateOptions): Promise<[GeneratedImage, ...GeneratedImage[]]> {
    const { signal, onProgress, numOutputs = 1 } = options;
    const { info } = this;
    if (!Number.isSafeInteger(numOutputs) || numOutputs < 1 || numOutputs > MAX_OUTPUTS) {
      throw new RangeError(
        `Cannot generate ${numOutputs} images: ask for 1 to ${MAX_OUTPUTS} at a time`,
      );
    }
    const seeds = resolveSeeds(options.seed, numOutputs);
    const given = await readImageSources(options.images ?? [], info.maxEditImages);
    const taskType = this.#task(options, "IMAGE", false);
    const [first] = given;
    const ownMask = await this.#imageMask(options, taskType, given);
    const control = await this.#control(options);
    const size = first
      ? (ownMask ? sizeFromMasked : sizeFromImage)(first, info)
      : control
      ? controlSize(control, info)
      : info.defaults;
    const settings = this.#settings(options, taskType, size, ownMask && maskedRules(info));
    const images = given.map((image) => fitImage(image, settings, info, options.fit));
    const mask: Image[] = [];
    if (ownMask) {
      const how = fitMasked(first!, settings, info, options.fit);
      images[0] = fit(first!, how);
      mask.push(fitMask(ownMask, how));
    }
    if (control) checkControlMode(settings, info, "controlMode");
    const steered = control && { control: fit(control, fitToResult(settings, options.fit)) };
    const references = await this.#references(options);
    const results: GeneratedImage[] = [];
    for (const [index, seed] of seeds.entries()) {
      const request = {
        ...settings,
        ...{ seed, numFrames: 1 },
        ...(images.length > 0 ? { images } : {}),
        ...(ownMask ? { mask } : {}),
        ...steered,
        ...references,
      };
      const { frames, channels, width, height, drawnAt } = await this.#engine.generate(request, {
        ...(signal ? { signal } : {}),
        ...(onProgress ? { onProgress: (progress) => onProgress({ ...progress, index }) } : {}),
        ...previewControl(options),
      });
      const given = {
        ...(images.length > 0 ? { isEdited: true } : {}),
        ...(ownMask ? { isMasked: true } : {}),
        ...(control ? { isControlled: true } : {}),
      };
      const recipe = this.#recipe({ ...settings, ...given, seed, width, height }, drawnAt);
      const made = info.layers ? frames : [frames[0]!];
      for (const [layer, data] of made.entries()) {
        const own = info.layers ? { ...recipe, layer } : recipe;
        results.push(new GeneratedImage(own, data, channels));
      }
    }
    return results as [GeneratedImage, ...GeneratedImage[]];
  }

  /**
   * Makes a video.
   *
   * ```ts
   * import { loadModel } from "denoise";
   *
   * await using model = await loadModel("Wan-AI/Wan2.1-T2V-1.3B-Diffusers");
   * const video = await model.generateVideo({
   *   prompt: "a red circle rolls over grass",
   *   width: 256,
   *   height: 144,
   *   seconds: 1,
   *   numInferenceSteps: 4,
   * });
   * console.log(`${video.frames.length} frames, ${video.fps} per second`);
   * await video.save("circle.mp4", { quality: 80, preset: "medium" });
   * await video.frame(0).save("first.png");
   * ```
   *
   * @param options the prompt, and what differs from the model's defaults
   * @returns the video; all its frames are in memory
   * @throws {RangeError} for a value that this model cannot serve, before any work begins
   * @throws {LoraError} for a LoRA that cannot be used; its `problems` list what is wrong
   * @throws {Error} for an image or video that cannot be read; the message names the file
   * @throws {DOMException} named `AbortError` when `signal` fires first
   */
  async generateVideo(options: GenerateVideoOptions): Promise<GeneratedVideo> {
    const { request, stream, control, recipeOf } = await this.#videoRequest(options);
    const result = await this.#engine.generate(request, control);
    const { fps, audio } = stream;
    return new GeneratedVideo({
      ...{ recipe: recipeOf(result), frames: result.frames, fps },
      ...(audio ? { audio } : {}),
    });
  }

  /**
   * Makes a video and writes it to a file, each frame as soon as it is decoded: they are never all in memory, however
   * long the video is.
   *
   * @param path ends with `.mp4`; folders on the way are made
   * @param options the prompt, and what differs from the model's defaults
   * @param file quality and effort of the encoder; `signal` of the other options stops it, too
   * @returns what was written
   * @throws {Error} as {@linkcode Model.generateVideo} does, and when the file cannot be written
   */
  async saveVideo(
    path: string,
    options: GenerateVideoOptions,
    file: Omit<SaveVideoOptions, "signal"> = {},
  ): Promise<SavedVideo> {
    checkVideoPath(path);
    const { request, stream, control, recipeOf } = await this.#videoRequest(options);
    const { signal } = options;
    let frameCount = 0;
    let result: Frames | undefined;
    await saveFrames(path, stream, { ...file, ...(signal ? { signal } : {}) }, async (write) => {
      let last: Promise<void> = Promise.resolve();
      result = await this.#engine.generate(request, {
        ...control,
        onFrame: ({ data }) => {
          frameCount++;
          last = last.then(() => write(data));
          last.catch(() => {});
          return last;
        },
      });
      await last;
    });
    return { recipe: recipeOf(result!), fps: stream.fps, frameCount };
  }

  /** A video's request, checked, with its inputs read. */
  async #videoRequest(options: GenerateVideoOptions): Promise<{
    readonly request: GenerateRequest;
    readonly stream: VideoStream;
    readonly control: GenerationControl;
    readonly recipeOf: (result: Frames) => Recipe;
  }> {
    const { info } = this;
    const { signal, onProgress, fps = info.defaults.fps, enableAudio = true } = options;
    const [seed] = resolveSeeds(options.seed, 1) as [number];
    const given = await readImageSources(options.images ?? [], info.maxImages);
    const taskType = this.#task(options, "VIDEO", options.video !== undefined);
    const settings = this.#settings(
      { ...options, ...this.#sizeWithin(options, given) },
      taskType,
      info.defaults,
    );
    checkFps(fps);
    checkFollows(options, info);
    const source = options.video === undefined
      ? undefined
      : await openVideo(options.video, { signal });
    const own = { ...info.defaults, ...info.taskDefaults[taskType] }.numFrames;
    const numFrames = countFrames(
      options,
      fps,
      {
        ...{ ...info, fps },
        numFrames: source && info.animates
          ? source.followedLength(fps)
          : source && taskType === "V2V"
          ? Math.min(source.length, info.maxFrames)
          : own,
      },
    );
    const images = given.map((image) => fitImage(image, settings, info, options.fit));
    const isEnd = taskType === "F2V";
    const length = isEnd ? info.continuedFrames ?? 1 : numFrames;
    const video = await source?.read({
      ...{ ...settings, numFrames: length, isEnd, fps },
      isContained: info.animates === true,
    });
    const mask = await this.#mask(options, { ...settings, numFrames, fps });
    return {
      request: {
        ...settings,
        ...{ seed, numFrames },
        ...(images.length > 0 ? { images } : {}),
        ...(video ? { video } : {}),
        ...(mask ? { mask } : {}),
        ...await this.#references(options),
      },
      stream: {
        ...resultSize(settings),
        fps: resultRate(fps, { ...settings, numFrames }),
        // What goes on after a video has no sound yet.
        audio: enableAudio && !isEnd && source?.audio
          ? { ...source.audio, seconds: numFrames / fps }
          : undefined,
      },
      control: {
        ...(signal ? { signal } : {}),
        ...(onProgress ? { onProgress } : {}),
        ...previewControl(options),
      },
      recipeOf: ({ width, height, drawnAt }) =>
        this.#recipe({ ...settings, seed, width, height }, drawnAt),
    };
  }

  /**
   * Frees the GPU; the process may exit then. Further calls do nothing.
   *
   * @throws {Error} when the GPU's thread is still at work 30 s later
   */
  close(): Promise<void> {
    return this.#engine.close();
  }

  /** Frees the GPU, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The size of a result whose request gives a budget of pixels, where the model says so. */
  #sizeWithin(
    { width, height }: SamplingOptions,
    [first]: readonly PixelImage[],
  ): Partial<Size> {
    const { animates, sizeMultiple, defaults } = this.info;
    if (!animates || !first) return {};
    const budget = { width: width ?? defaults.width, height: height ?? defaults.height };
    return sizeWithin(first, budget, sizeMultiple);
  }

  /** Images of what shall be seen. */
  async #references(
    { references: sources = [] }: SamplingOptions,
  ): Promise<{ references?: Image[] }> {
    if (sources.length === 0) return {};
    checkReferenceCount(sources.length, this.info);
    const given = await Promise.all(sources.map(readPixels));
    return { references: given.map(fitReference) };
  }

  /** The picture that steers, as it is given. */
  async #control({ control }: GenerateOptions): Promise<PixelImage | undefined> {
    if (control === undefined) return undefined;
    checkTakesControl(this.info);
    return await readPixels(control);
  }

  /** The mask of an image: the one that is given, or the image itself where it has holes. */
  async #imageMask(
    { mask }: GenerateOptions,
    taskType: TaskType,
    given: readonly PixelImage[],
  ): Promise<PixelImage | undefined> {
    const [first, second] = given;
    const isTaken = takesMask(this.info, taskType);
    if (mask === undefined) {
      return isTaken && !second && first && hasHoles(first) ? first : undefined;
    }
    if (!isTaken) {
      const advice = !first && this.info.inpainting ? "name the image that it is for" : "omit it";
      throw new RangeError(`Cannot do ${taskType} with a mask: ${advice}`);
    }
    const own = await readPixels(mask);
    if (first) checkMaskShape(own, first);
    return own;
  }

  /** Frames of a mask, of the size of the result. */
  async #mask(
    { mask, signal }: GenerateVideoOptions,
    shape: Size & { numFrames: number; fps: number; taskType: TaskType },
  ): Promise<Image[] | undefined> {
    if (mask === undefined) return undefined;
    if (!this.info.takesMasks || shape.taskType !== "V2V") {
      throw new RangeError(`Cannot do ${shape.taskType} with a mask: omit it`);
    }
    return await (await openVideo(mask, { signal })).read(shape);
  }

  #task(options: SamplingOptions, output: "IMAGE" | "VIDEO", hasVideo: boolean): TaskType {
    const { taskType, images = [] } = options;
    const query = { output, hasImage: images.length > 0, hasVideo };
    return resolveTask({ ...query, ...(taskType ? { taskType } : {}) }, this.info);
  }

  #recipe(settings: Omit<Recipe, "model">, drawnAt: Frames["drawnAt"]): Recipe {
    return { ...settings, model: this.#name, ...(drawnAt ? { drawnAt } : {}) };
  }

  /** What a call says of prompt, size and sampling, completed and checked. */
  #settings(
    options: SamplingOptions,
    taskType: TaskType,
    size: Size,
    rules: ModelInfo = this.info,
  ): Settings {
    const { prompt, width = size.width, height = size.height, loras } = options;
    checkPrompt("prompt", prompt);
    const { settings, idle } = completeSettings(options, taskType, rules);
    for (const [name, why] of idle) {
      throw new FieldError(name, `Cannot use ${name} ${options[name]}: ${why}; omit it`);
    }
    checkSize({ width, height }, this.info);
    return { ...settings, prompt, taskType, width, height, ...(loras ? { loras } : {}) };
  }
}

/** Refuses a length where that follows from the video. */
function checkFollows(options: GenerateVideoOptions, { animates }: ModelInfo): void {
  for (const name of animates ? ["numFrames", "seconds"] as const : []) {
    if (options[name] === undefined) continue;
    throw new FieldError(
      name,
      `Cannot use ${name} ${options[name]}: the result is as long as the driving video; omit it`,
    );
  }
}
