/** A loaded model, as the library gives it. */

import type {
  Engine,
  Frames,
  GenerateRequest,
  GenerationControl,
  ModelInfo,
} from "../engine/types.ts";
import {
  checkVideoPath,
  engineRequest,
  FieldError,
  GeneratedImage,
  GeneratedVideo,
  type Idle,
  isSoundPath,
  type LocalInputs,
  localReader,
  prepareImages,
  prepareVideo,
  type Recipe,
  recipeOf,
  resolveSeeds,
  saveFrames,
  saveSound,
  type SaveVideoOptions,
  soundShape,
  videoShape,
  type VideoStream,
  videoStream,
  withVisions,
} from "../generation/mod.ts";
import { withVideoLosses } from "../generation/image_crf.ts";
import { findFfmpeg } from "../media/video/mod.ts";
import { fitWaveform } from "../media/waveform.ts";
import { checkOptions } from "./check_options.ts";
import type {
  GenerateOptions,
  GenerateVideoOptions,
  SamplingOptions,
  SavedVideo,
} from "./options.ts";

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
    checkOptions(options);
    if (!Number.isSafeInteger(numOutputs) || numOutputs < 1 || numOutputs > MAX_OUTPUTS) {
      throw new RangeError(
        `Cannot generate ${numOutputs} images: ask for 1 to ${MAX_OUTPUTS} at a time`,
      );
    }
    const seeds = resolveSeeds(options.seed, numOutputs);
    const { mask: givenMask, referenceMasks: givenMasks, loras } = options;
    const asked = {
      ...this.#asked(options),
      control: listOf(options.control),
      mask: givenMask,
      referenceMasks: givenMasks,
      loras,
    };
    const prepared = await prepareImages<LocalInputs>(asked, { info, reader: localReader(signal) });
    refuseIdle(prepared.idle, options);
    const request = { ...prepared.request, ...(loras && { loras }) };
    const { images, visions, mask, control, references, referenceMasks } = request;
    const results: GeneratedImage[] = [];
    for (const [index, seed] of seeds.entries()) {
      const made = await this.#engine.generate({
        ...engineRequest(request, seed),
        ...(loras && { loras }),
        ...(images.length > 0 && { images: withVisions(images, visions) }),
        ...(mask && { mask: [mask] }),
        ...(control && { control }),
        ...(references && { references }),
        ...(referenceMasks && { referenceMasks }),
      }, {
        ...(signal && { signal }),
        ...(onProgress && { onProgress: (progress) => onProgress({ ...progress, index }) }),
        ...previewControl(options),
      });
      const recipe = recipeOf(request, { ...made, seed, model: this.#name });
      for (const [layer, data] of (info.layers ? made.frames : made.frames.slice(0, 1)).entries()) {
        const own = info.layers ? { ...recipe, layer } : recipe;
        results.push(new GeneratedImage(own, data, made.channels));
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
    const { fps } = stream;
    const audio = result.audio ? fitWaveform(result.audio, stream.seconds) : stream.audio;
    return new GeneratedVideo({
      recipe: recipeOf(result),
      frames: result.frames,
      fps,
      ...(audio ? { audio } : {}),
    });
  }

  /**
   * Makes a video and writes it to a file, each frame as soon as it is decoded: they are never all in memory, however
   * long the video is.
   *
   * @param path ends with `.mp4`, or with `.wav` for the sound alone of a model with `info.givesAudio`, whose frames are
   *   not decoded then; folders on the way are made
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
    const audioAlone = isSoundPath(path);
    const { request, stream, control, recipeOf } = await this.#videoRequest(options, audioAlone);
    if (audioAlone) {
      const made = await this.#engine.generate(request, control);
      await saveSound(path, fitWaveform(made.audio!, stream.seconds));
      return { recipe: recipeOf(made), fps: stream.fps, frameCount: 0 };
    }
    const { signal } = options;
    let frameCount = 0;
    let result: Frames | undefined;
    await saveFrames(path, stream, { ...file, ...(signal ? { signal } : {}) }, async (writer) => {
      let last: Promise<void> = Promise.resolve();
      const add = (add: () => Promise<void>) => {
        last = last.then(add);
        last.catch(() => {});
        return last;
      };
      result = await this.#engine.generate(request, {
        ...control,
        onAudio: (audio) => void add(() => writer.addAudio(audio)),
        onFrame: ({ data }) => {
          frameCount++;
          return add(() => writer.write(data));
        },
      });
      await last;
    });
    return { recipe: recipeOf(result!), fps: stream.fps, frameCount };
  }

  /** A video's request, checked, with its inputs read. */
  async #videoRequest(options: GenerateVideoOptions, audioAlone = false): Promise<{
    readonly request: GenerateRequest;
    readonly stream: VideoStream;
    readonly control: GenerationControl;
    readonly recipeOf: (result: Frames) => Recipe;
  }> {
    const { signal, onProgress, loras, enableAudio } = options;
    checkOptions(options);
    const [seed] = resolveSeeds(options.seed, 1) as [number];
    const { fps, numFrames, seconds } = options;
    const { request, idle } = await prepareVideo<LocalInputs>(
      {
        ...this.#asked(options),
        fps,
        numFrames,
        seconds,
        enableAudio,
        audioAlone,
        video: options.video,
        audio: options.audio,
        mask: options.mask,
      },
      { info: this.info, reader: localReader(signal) },
    );
    refuseIdle(idle, options);
    const { images, visions, video, audio, mask, references } = request;
    const shape = videoShape(request, this.info);
    return {
      request: {
        ...engineRequest(request, seed),
        ...(loras && { loras }),
        ...(images.length > 0 && {
          images: await withVideoLosses(
            withVisions(images, visions),
            request,
            this.info,
            findFfmpeg,
            signal,
          ),
        }),
        ...(references && { references }),
        ...(video && { video: await video.read(shape) }),
        ...(audio && { audio: await audio.read(soundShape(request, this.info)) }),
        ...(mask && "read" in mask && { mask: await mask.read(request) }),
      },
      stream: videoStream(request),
      control: {
        ...(signal && { signal }),
        ...(onProgress && { onProgress }),
        ...previewControl(options),
      },
      recipeOf: (result) =>
        recipeOf({ ...request, ...(loras && { loras }) }, { ...result, seed, model: this.#name }),
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

  #asked(options: SamplingOptions) {
    const { prompt, wildcards, width, height, taskType, fit, images = [], references } = options;
    const { previews } = previewControl(options);
    return {
      prompt,
      wildcards,
      given: options,
      width,
      height,
      taskType,
      fit,
      images,
      references,
      previews,
    };
  }
}

function listOf(
  control: GenerateOptions["control"],
): Extract<GenerateOptions["control"], readonly unknown[]> | undefined {
  if (control === undefined || Array.isArray(control)) return control;
  return [control as Exclude<typeof control, readonly unknown[]>];
}

/** What changes nothing was given in error. */
function refuseIdle(idle: Idle, options: object): void {
  for (const [name, why] of idle) {
    const value = (options as Record<string, unknown>)[name];
    const shown = ["string", "number", "boolean"].includes(typeof value)
      ? `${name} ${value}`
      : name;
    throw new FieldError(name, `Cannot use ${shown}: ${why}; omit it`);
  }
}
