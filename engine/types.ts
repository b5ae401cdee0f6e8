/** What the layers above see of the engine: one loaded model that turns requests into frames. */
import type {
  CutPrompt,
  InputImage,
  PipelineInfo,
  RoomSetting,
  SamplingSettings,
  TaskType,
} from "../models/mod.ts";
import type { Waveform } from "../media/waveform.ts";

export type { Waveform } from "../media/waveform.ts";
export type {
  AudioFormat,
  ControlBalance,
  ControlNetInfo,
  ControlType,
  CutPrompt,
  DecoderKind,
  EmbeddingInfo,
  GivenLatents,
  HiresSettings,
  HiresUpscaler,
  ImageLimits,
  InputImage,
  IpAdapterMode,
  LayerLimits,
  NoiseScheduleName,
  OptionalPart,
  OptionalSettings,
  PipelineDefaults,
  PipelineInfo,
  PromptSyntax,
  QualityTier,
  ReferenceMethod,
  RoomSetting,
  SamplerName,
  SamplingChoices,
  SamplingSettings,
  TaskDefaults,
  TaskType,
} from "../models/mod.ts";

/** A size in pixels. */
export interface Size {
  /** Pixels per row. */
  readonly width: number;
  /** Number of rows. */
  readonly height: number;
}

/** An image in memory: RGB, row by row, 3 bytes per pixel. */
export interface Image {
  /** Pixels per row. */
  readonly width: number;
  /** Number of rows. */
  readonly height: number;
  /** `width * height * 3` bytes. */
  readonly data: Uint8Array;
}

/** A component that LoRAs can be meant for: the names of the HTTP contract. */
export type LoraTarget = "transformer" | "transformer_2" | "critic";

/** A LoRA in use. */
export interface LoraUse {
  /** A name of `namedLoras`, its file, a folder that holds it alone, or a hub id. */
  path: string;
  /** Replaces the alpha that the file gives. */
  alpha?: number;
  /** 0 leaves the model as it is, 1 is as trained; default 1. */
  strength?: number;
  /** `all`, the default, are those that the model has, its text encoders included; `text_encoder` are these alone. */
  target?: LoraTarget | "text_encoder" | "all";
  /**
   * `dynamic`: a low-rank branch beside each layer. `merge`: added to the weights, which are read from the file again
   * when the LoRA is taken away. `auto`, the default: `merge` for LoRAs that are prepared, where the weights are
   * not quantised and stay on the device; `dynamic` for others, unless the ranks together make it slow.
   */
  mode?: "auto" | "merge" | "dynamic";
}

/** What became of a LoRA: how it is applied to a component, and what of it is. */
export interface LoraReport {
  /** Place of the LoRA in the list that was asked for. */
  index: number;
  /** The file. */
  path: string;
  /** The component. */
  target: LoraTarget | "text_encoder";
  /** How strongly it counts there. */
  strength: number;
  /** Written into the weights, or computed beside them. */
  mode: "merged" | "dynamic";
  /** Why it is not applied as asked, for example because the weights are quantised. */
  note?: string;
  /** How the file's naming is called. */
  dialect: string;
  /** Names of the layers that it changes, at least one. */
  layers: readonly string[];
  /** Keys of the file that lead to no layer of this model. */
  unmatchedKeys: readonly string[];
}

/** What is known of a model once it is loaded; constant from then on. */
export interface ModelInfo extends PipelineInfo {
  /** Path as given when the model was opened: a folder, or an id. */
  readonly modelPath: string;
  /** Largest width times height of a result, in pixels. */
  readonly maxPixels: number;
  /** Largest number of denoising steps. */
  readonly maxSteps: number;
  /** Components that LoRAs can be meant for; none if they cannot be used. */
  readonly loraTargets: readonly LoraTarget[];
  /** Bytes of the device that may be taken; omitted if only taking them tells. */
  readonly deviceBytes?: number;
  /** Whether the adapter computes on the CPU. */
  readonly isSoftware?: boolean;
}

/** One image or video to make. */
export interface GenerateRequest extends Omit<SamplingSettings, "negativePrompt"> {
  /** What to draw; not empty. */
  prompt: string;
  /** Negative prompt; the model's own by default. */
  negativePrompt?: string;
  /** Pixels per row, a multiple of the model's `sizeMultiple`. */
  width: number;
  /** Number of rows, a multiple of the model's `sizeMultiple`. */
  height: number;
  /** 1 for an image; the model's own by default. */
  numFrames?: number;
  /** Frames per second, which motion and sound of some models follow; the model's own by default. */
  fps?: number;
  /** Whether a model with `givesAudio` makes sound; true by default. */
  enableAudio?: boolean;
  /** A sound that the video follows, as the model `takesAudio`: cut, or followed by silence. The result has none then. */
  audio?: Waveform;
  /** Whether the sound of a model with `givesAudio` is all that is made, without frames. */
  audioAlone?: boolean;
  /** Seed of the initial noise, a non-negative integer. */
  seed: number;
  /** What to make of the inputs; follows from them by default. */
  taskType?: TaskType;
  /**
   * The size that is drawn, where the result has another: with `paddingMaskCrop` that of the area around the mask; without
   * it the result is the middle of what is drawn, as of a single image with its edges mirrored.
   */
  cropSize?: Size;
  /**
   * Images to start from or to edit, in the order given: of the size of the result, or within the model's
   * `imageLimits` where it has them.
   */
  images?: readonly InputImage[];
  /** Frames of the video to change or to steer by, or those that it ends with, of the size of the result. */
  video?: readonly Image[];
  /**
   * Which pixels are redrawn: white ones. Of a video a frame for each of its own, or the last for the rest; of the first
   * image a single one where the model has `inpainting`, and both have the size of the result then.
   */
  mask?: readonly Image[];
  /** What the model's ControlNets steer an image by, of the size of the result. */
  control?: readonly Image[];
  /** Images of what shall be seen in the result, of any size. */
  references?: readonly Image[];
  /** Where the result shows each of them: white, in images of the size of the result; everywhere by default. */
  referenceMasks?: readonly Image[];
  /** LoRAs for this request alone, in the order in which they are applied. */
  loras?: readonly LoraUse[];
}

/** The part of a request that decides whether it can be made on a device. */
export interface RoomRequest extends
  Pick<
    GenerateRequest,
    | "width"
    | "height"
    | "cropSize"
    | "numFrames"
    | "fps"
    | "enableAudio"
    | "upscalingScale"
    | RoomSetting
  > {
  /** The task of the request. */
  taskType: TaskType;
  /** How many images it brings; none by default. */
  images?: number;
  /** Whether a mask keeps a part of the first image. */
  hasMask?: boolean;
  /** How many control pictures steer it; none by default. */
  controls?: number;
  /** How many reference images it brings; none by default. */
  references?: number;
  /** How often the unfinished image is shown; never by default. */
  previews?: number;
}

/** How a generation is watched and stopped. */
export interface GenerationControl {
  /** Stops it within one step. */
  signal?: AbortSignal;
  /** Told how far it is. */
  onProgress?: (progress: Progress) => void;
  /**
   * Given each frame as soon as it is decoded, in order; the result then holds none. No more frames are made
   * while the promises of those before are pending and hold much memory.
   */
  onFrame?: (frame: Image) => void | Promise<void>;
  /** Given the sound of a model with `givesAudio`, before the first frame; the result then holds none. */
  onAudio?: (audio: Waveform) => void;
  /** Which job it is a part of: where there are several cards, jobs share them. */
  job?: string;
  /** How many times the unfinished image is shown to `onPreview`, evenly over the steps. */
  previews?: number;
  /** Given the first frame as it would be if the rest of the noise were gone. */
  onPreview?: (preview: Image, index: number) => void;
}

/** How far a generation is. */
export interface Progress {
  /**
   * What is done: the weights of a model that was unloaded are read, kernels are compiled that no request needed before,
   * or what the GPU works on.
   */
  stage: "load" | "compile" | "encode" | "denoise" | "decode";
  /** Denoising steps that are finished; kernels in stage `compile`. */
  step: number;
  /** Denoising steps, or kernels, altogether. */
  totalSteps: number;
  /** Finished share of the whole generation, 0 to 1, never falling. */
  fraction: number;
  /** Expected time to the end, in seconds; absent until it can be told. */
  etaSeconds?: number;
}

/** What a generation gives. */
export interface Frames {
  /** Pixels per row. */
  width: number;
  /** Rows per frame. */
  height: number;
  /** The size at which the model drew, where the frames were enlarged. */
  drawnAt?: Size;
  /** What enlarged the frames after they were made, where the request asks for it. */
  upscaler?: string;
  /** RGB frames, row-major, 3 bytes per pixel; RGBA where the model gives alpha, of one with `layers` one for each layer. */
  frames: Uint8Array[];
  /** Bytes per pixel of frames that are RGBA. */
  channels?: 4;
  /** Sound of a model that makes it; as long as the frames, but for a part of a frame. */
  audio?: Waveform;
  /** Frames per second that the model was made for. */
  fps: number;
  /** Seconds by stage. */
  timings: Record<string, number>;
  /** Most device memory taken at once, in bytes. */
  peakBytes: number;
  /** Prompts that were not read as a whole. */
  cutPrompts?: readonly CutPrompt[];
}

/** Where a model is: on a device, on its way there, or in its files alone. */
export type Residence = "loaded" | "loading" | "unloaded";

/** One loaded model. Generations of one device run one after the other. */
export interface Engine {
  /** How many generations can go on at once; default 1. */
  readonly lanes?: number;
  /** What the model's files say of it. */
  readonly info: ModelInfo;
  /**
   * Makes one image or video.
   *
   * @throws {RangeError} for a request whose values this model cannot serve
   * @throws {TypeError} for a request of the wrong types
   * @throws the signal's reason, a `DOMException` named `AbortError` unless another is given, when `signal` fires
   *   first; while another generation runs, not before that has ended
   */
  generate(request: GenerateRequest, options?: GenerationControl): Promise<Frames>;
  /**
   * Resolves when a request can be made, as far as its size tells; asked before it waits for its turn. On a GPU whose
   * memory was not bounded only the work itself tells whether it suffices.
   *
   * @throws {RangeError} when the device cannot hold one of its tensors, or the memory does not suffice
   */
  checkRoom(request: RoomRequest): Promise<void>;
  /**
   * Reads LoRAs and checks them against the model, while a generation may go on. What was read stays in memory,
   * within a bound.
   *
   * @returns for each LoRA and component that it changes
   * @throws {LoraError} when a file is damaged, is for another model, or no key of it fits
   */
  checkLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]>;
  /**
   * Brings LoRAs onto the device as well, so that a request with the same ones starts at once; they stay in memory
   * until the next call. Takes its turn among the generations.
   *
   * @returns for each LoRA and component that it changes
   * @throws {LoraError} when a file is damaged, is for another model, or no key of it fits; nothing changes then
   */
  prepareLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]>;
  /** Whether the model is loaded, or its files are where they were; always, where it is not known. */
  isThere?(): Promise<boolean>;
  /** Where the model is; after it was unloaded, the next request brings it back. */
  readonly residence: Residence;
  /**
   * Brings the model onto the device, where it is not; takes its turn.
   *
   * @throws {Error} when it cannot be loaded
   */
  load(): Promise<void>;
  /** Takes the model off the device after all that was asked for before; the next request brings it back. */
  unload(): Promise<void>;
  /**
   * Frees the device and waits until its thread is gone: a process that exits before may crash. A generation under way
   * is aborted. Further calls do nothing.
   *
   * @throws {Error} when the thread is still at work 30 s later
   */
  close(): Promise<void>;
}

/** A request to get ready for, as far as it differs from the model's own. */
export type PreparedRequest = Partial<
  Pick<GenerateRequest, "width" | "height" | "numFrames" | "guidanceScale">
>;
