/**
 * A loaded model, as the library gives it.
 *
 * @module
 */

import { resultRate } from "../engine/result_size.ts";
import type {
  Engine,
  Frames,
  Image,
  LoraUse,
  ModelInfo,
  SamplingSettings,
  TaskType,
} from "../engine/types.ts";
import {
  checkFps,
  checkPrompt,
  checkSize,
  completeSettings,
  countFrames,
  FieldError,
  fitImage,
  fitReference,
  GeneratedImage,
  GeneratedVideo,
  openVideo,
  readImageSources,
  type Recipe,
  resolveSeeds,
  resolveTask,
  type Size,
  sizeFromImage,
} from "../generation/mod.ts";
import type { GenerateOptions, GenerateVideoOptions, SamplingOptions } from "./options.ts";

/** What a call says of its result, completed and checked. */
interface Settings extends SamplingSettings, Size {
  readonly prompt: string;
  readonly taskType: TaskType;
  readonly loras?: readonly LoraUse[];
}

/** Most images of one call; all are in memory at its end. */
const MAX_OUTPUTS = 1000;

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
   * @returns `numOutputs` images, at least one
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
    const given = await readImageSources(options.images ?? [], info.maxImages);
    const taskType = this.#task(options, "IMAGE", false);
    const [first] = given;
    const size = first ? sizeFromImage(first, info) : info.defaults;
    const settings = this.#settings(options, taskType, size);
    const images = given.map((image) => fitImage(image, settings, info, options.fit));
    const references = await this.#references(options, settings);
    const results: GeneratedImage[] = [];
    for (const [index, seed] of seeds.entries()) {
      const request = {
        ...settings,
        ...{ seed, numFrames: 1 },
        ...(images.length > 0 ? { images } : {}),
        ...references,
      };
      const { frames, width, height, drawnAt } = await this.#engine.generate(request, {
        ...(signal ? { signal } : {}),
        ...(onProgress ? { onProgress: (progress) => onProgress({ ...progress, index }) } : {}),
      });
      const recipe = this.#recipe({ ...settings, seed, width, height }, drawnAt);
      results.push(new GeneratedImage(recipe, frames[0]!));
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
    const { info } = this;
    const { signal, onProgress, fps = info.defaults.fps } = options;
    const [seed] = resolveSeeds(options.seed, 1) as [number];
    const given = await readImageSources(options.images ?? [], info.maxImages);
    const taskType = this.#task(options, "VIDEO", options.video !== undefined);
    const settings = this.#settings(options, taskType, info.defaults);
    checkFps(fps);
    const source = options.video === undefined
      ? undefined
      : await openVideo(options.video, { signal });
    const own = { ...info.defaults, ...info.taskDefaults[taskType] }.numFrames;
    const numFrames = countFrames(
      options,
      fps,
      {
        ...{ ...info, fps },
        numFrames: source && taskType === "V2V" ? Math.min(source.length, info.maxFrames) : own,
      },
    );
    const images = given.map((image) => fitImage(image, settings, info, options.fit));
    const isEnd = taskType === "F2V";
    const length = isEnd ? info.continuedFrames ?? 1 : numFrames;
    const video = await source?.read({ ...settings, numFrames: length, isEnd, fps });
    const mask = await this.#mask(options, { ...settings, numFrames, fps });
    const { frames, width, height, drawnAt } = await this.#engine.generate({
      ...settings,
      ...{ seed, numFrames },
      ...(images.length > 0 ? { images } : {}),
      ...(video ? { video } : {}),
      ...(mask ? { mask } : {}),
      ...await this.#references(options, settings),
    }, { ...(signal ? { signal } : {}), ...(onProgress ? { onProgress } : {}) });
    const recipe = this.#recipe({ ...settings, seed, width, height }, drawnAt);
    return new GeneratedVideo({
      ...{ recipe, frames, fps: resultRate(fps, { ...settings, numFrames }) },
      ...(source?.audio ? { audio: source.audio } : {}),
    });
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

  /** Images of what shall be seen, as large as they fit into the result. */
  async #references(
    { references: sources = [] }: SamplingOptions,
    size: Size,
  ): Promise<{ references?: Image[] }> {
    const { maxReferences = 0 } = this.info;
    if (sources.length === 0) return {};
    if (sources.length > maxReferences) {
      throw new RangeError(
        `Cannot use ${sources.length} reference images: this model takes ${
          maxReferences || "none"
        }`,
      );
    }
    const given = await readImageSources(sources, maxReferences);
    return { references: given.map((image) => fitReference(image, size)) };
  }

  /** Frames of a mask, of the size of the result. */
  async #mask(
    { mask, signal }: GenerateVideoOptions,
    shape: Size & { numFrames: number; fps: number; taskType: TaskType },
  ): Promise<Image[] | undefined> {
    if (mask === undefined) return undefined;
    if (!this.info.takesMasks || shape.taskType !== "V2V") {
      throw new RangeError(`Cannot do ${shape.taskType} with a mask: leave it out`);
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
  #settings(options: SamplingOptions, taskType: TaskType, size: Size): Settings {
    const { prompt, width = size.width, height = size.height, loras } = options;
    checkPrompt("prompt", prompt);
    const { settings, idle } = completeSettings(options, taskType, this.info);
    for (const [name, why] of idle) {
      throw new FieldError(name, `Cannot use ${name} ${options[name]}: ${why}; leave it out`);
    }
    checkSize({ width, height }, this.info);
    return { ...settings, prompt, taskType, width, height, ...(loras ? { loras } : {}) };
  }
}
