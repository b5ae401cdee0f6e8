/** What the layers above see of the engine: one loaded model that turns requests into frames. */
import type {
  CutPrompt,
  ImageLimits,
  LayerLimits,
  NoiseScheduleName,
  OptionalPart,
  OptionalSettings,
  PipelineTaskDefaults as TaskDefaults,
  RoomSetting,
  SamplerName,
  SamplingSettings,
} from "../models/mod.ts";

export type {
  ControlType,
  CutPrompt,
  DecoderKind,
  ImageLimits,
  LayerLimits,
  NoiseScheduleName,
  OptionalPart,
  OptionalSettings,
  PipelineTaskDefaults as TaskDefaults,
  QualityTier,
  RoomSetting,
  SamplerName,
  SamplingSettings,
} from "../models/mod.ts";

/** What a request asks a model to make, from what; the names of the HTTP contract. */
export type TaskType =
  | "T2I"
  | "T2V"
  | "I2V"
  | "V2V"
  | "TI2I"
  | "I2I"
  | "TI2V"
  | "F2V"
  | "I2M"
  | "VLA_ACTION";

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

/** An image to start from. */
export interface GivenImage extends Image {
  /** The whole image as the model's image encoder takes it: RGB, a square of the model's `visionSide`. */
  readonly vision?: Uint8Array;
  /** `width * height` bytes, 0 where nothing is seen of it, for a model with `layers`; opaque by default. */
  readonly alpha?: Uint8Array;
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

/** What a model's files say of it; known once it is loaded and constant from then on. */
export interface ModelInfo {
  /** Path as given when the model was opened: a folder, or an id. */
  modelPath: string;
  /** The pipeline in words, such as `Wan`. */
  pipelineName: string;
  /** The class named in `model_index.json`, such as `WanPipeline`. */
  pipelineClass: string;
  /** The task of a request that leaves it open; one of `supportedTaskTypes`. */
  taskType: TaskType;
  /** Every task the pipeline can do: not empty, none twice. */
  supportedTaskTypes: readonly TaskType[];
  /** Storage format of the denoising transformer, such as `f16`. */
  ditPrecision: string;
  /** Storage format of the autoencoder. */
  vaePrecision: string;
  /** Storage format of the text encoder. */
  textEncoderPrecision: string;
  /** What a request that says nothing gets; sizes in pixels. */
  defaults: {
    width: number;
    height: number;
    numInferenceSteps: number;
    guidanceScale: number;
    /** Guidance at low noise, where another transformer is at work. */
    guidanceScale2?: number;
    /** Sampler of requests that name none. */
    sampler?: SamplerName;
    /** Spacing of the sigmas of such requests; none where it has no name. */
    scheduler?: NoiseScheduleName;
    numFrames: number;
    fps: number;
    negativePrompt: string;
  };
  /** What differs from `defaults` when a request is for a certain task. */
  taskDefaults: Readonly<Partial<Record<TaskType, TaskDefaults>>>;
  /** Width and height must be multiples of this many pixels. */
  sizeMultiple: number;
  /**
   * Shortest and longest side that the model was made for, in pixels. Where they are given, results of more than twice
   * the pixels of the longest squared are drawn with such sides and enlarged.
   */
  nativeSides?: { readonly least: number; readonly most: number };
  /** A request's size is a budget of pixels, and the result has the shape of the given image or video. */
  sizeIsBudget?: boolean;
  /** V2V moves what an image shows as the video moves: it takes both, and the result is as long as the video. */
  animates?: true;
  /** Videos have `k * frameMultiple + 1` frames. */
  frameMultiple: number;
  /** Most frames of a video. */
  maxFrames: number;
  /** Fewest images of a task that starts from some; default 1. */
  minImages?: number;
  /** Most images that a request may bring; 0 when the model takes none. */
  maxImages: number;
  /** Most images that an edit may bring. */
  maxEditImages: number;
  /** Most reference images that a request may bring; none by default. */
  maxReferences?: number;
  /** Whether the video of V2V steers the result, maybe through masks, and is not itself redrawn by strength. */
  takesMasks?: boolean;
  /**
   * How a mask keeps a part of the image that TI2I edits: the strength of requests that say none. No image is kept in
   * part by default.
   */
  inpainting?: { readonly strength: number };
  /** How many layers with alpha it splits an image into, which are its result; it makes opaque images by default. */
  layers?: LayerLimits;
  /** Kinds of control pictures that a request chooses from; it says none where there are none. */
  controlModes?: readonly string[];
  /** Whether its ControlNet sees an image and its mask instead of a control picture. */
  controlsByMask?: boolean;
  /** Side in pixels of the squares that its image encoder takes, where it has one. */
  visionSide?: number;
  /** Frames that F2V takes from the end of a video, where the model does that. */
  continuedFrames?: number;
  /** Size limits of input images; without them, inputs are resized to the output. */
  imageLimits?: ImageLimits;
  /** Largest width times height of a result, in pixels. */
  maxPixels: number;
  /** Largest number of denoising steps. */
  maxSteps: number;
  /** Settings that a request may have beside those that every model takes. */
  optionalSettings: readonly (keyof OptionalSettings)[];
  /** Most tokens of a prompt that `maxSequenceLength` may ask for. */
  maxSequenceLength: number;
  /** Which of the parts are there that a model can do without. */
  optionalParts: readonly OptionalPart[];
  /** Components that LoRAs can be meant for; none where they cannot be used. */
  loraTargets: readonly LoraTarget[];
  /** Bytes of all weights, as the files have them. */
  weightBytes?: number;
  /** Bytes of the device that may be taken; omitted if only taking them tells. */
  deviceBytes?: number;
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
  /** Seed of the initial noise, a non-negative integer. */
  seed: number;
  /** What to make of the inputs; follows from them by default. */
  taskType?: TaskType;
  /**
   * Images to start from or to edit, in the order given: of the size of the result, or within the model's
   * `imageLimits` where it has them.
   */
  images?: readonly GivenImage[];
  /** Frames of the video to change or to steer by, or those that it ends with, of the size of the result. */
  video?: readonly Image[];
  /**
   * Which pixels are redrawn: white ones. Of a video a frame for each of its own, or the last for the rest; of the first
   * image a single one where the model has `inpainting`, and both have the size of the result then.
   */
  mask?: readonly Image[];
  /** What the model's ControlNet steers an image by, of the size of the result. */
  control?: Image;
  /** Images of what shall be seen in the result, of any size. */
  references?: readonly Image[];
  /** LoRAs for this request alone, in the order in which they are applied. */
  loras?: readonly LoraUse[];
}

/** The part of a request that decides whether it can be made on a device. */
export interface RoomRequest
  extends Pick<GenerateRequest, "width" | "height" | "numFrames" | "upscalingScale" | RoomSetting> {
  /** The task of the request. */
  taskType: TaskType;
  /** How many images it brings; none by default. */
  images?: number;
  /** Whether a mask keeps a part of the first image. */
  hasMask?: boolean;
  /** Whether a control picture steers it. */
  hasControl?: boolean;
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
  /** RGB frames, row-major, 3 bytes per pixel; of a model with `layers` RGBA, one for each layer. */
  frames: Uint8Array[];
  /** Bytes per pixel of frames that are RGBA. */
  channels?: 4;
  /** Frames per second that the model was made for. */
  fps: number;
  /** Seconds by stage. */
  timings: Record<string, number>;
  /** Most device memory taken at once, in bytes. */
  peakBytes: number;
  /** Prompts that were not read as a whole. */
  cutPrompts?: readonly CutPrompt[];
}

/** One loaded model. Generations of one device run one after the other. */
export interface Engine {
  /** How many generations can go on at once; default 1. */
  readonly lanes?: number;
  /** The adapter as its driver names it. */
  readonly adapter?: string;
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
  /** Whether the model is on the device; false after it was unloaded, until the next request. */
  readonly isLoaded: boolean;
  /**
   * Brings the model onto the device, where it is not; takes its turn.
   *
   * @throws {Error} when it cannot be loaded
   */
  load(): Promise<void>;
  /** Takes the model off the device after all that was asked for before; the next request brings it back. */
  unload(): Promise<void>;
  /** Takes at most so many bytes of the device from the next load on. */
  limitMemory(bytes: number): void;
  /**
   * Frees the device and waits until its thread is gone: a process that exits before may crash. A generation under way
   * is aborted. Further calls do nothing.
   *
   * @throws {Error} when the thread is still at work 30 s later
   */
  close(): Promise<void>;
}

/** A request to get ready for, as far as it differs from the model's own. */
export interface PreparedRequest {
  /** Pixels per row. */
  width?: number;
  /** Number of rows. */
  height?: number;
  /** Frames of a video. */
  numFrames?: number;
  /** How much the prompt counts; 0 or 1 takes other kernels than what lies above. */
  guidanceScale?: number;
}
