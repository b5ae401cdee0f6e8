/**
 * What the layers above see of the engine: one loaded model that turns requests into frames.
 *
 * @module
 */
import type {
  ImageLimits,
  LayerLimits,
  MemoryReport,
  OptionalPart,
  OptionalSettings,
  PipelineTaskDefaults as TaskDefaults,
  SamplingSettings,
} from "../models/mod.ts";
import type { KernelChoice, Tuning } from "../runtime/mod.ts";
import type { ModelLoras } from "./model_loras.ts";
import type { DeviceSettings } from "./protocol.ts";

export type {
  ControlType,
  DecoderKind,
  ImageLimits,
  LayerLimits,
  NoiseScheduleName,
  OptionalPart,
  OptionalSettings,
  PipelineTaskDefaults as TaskDefaults,
  QualityTier,
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
  /** `width * height` bytes, 0 where nothing is seen of it, for a model with `layers`; opaque when left out. */
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
  /** 0 leaves the model as it is, 1 is as trained; 1 when left out. */
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
  /** Its place in the list that was asked for. */
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
  /** As given when the model was opened: a folder, or an id. */
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
    /** At low noise, where another transformer is at work. */
    guidanceScale2?: number;
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
  /** Videos have `k * frameMultiple + 1` frames. */
  frameMultiple: number;
  /** Most frames of a video. */
  maxFrames: number;
  /** Fewest images of a task that starts from some; 1 when left out. */
  minImages?: number;
  /** Most images that a request may bring; 0 when the model takes none. */
  maxImages: number;
  /** Most reference images that a request may bring; none when left out. */
  maxReferences?: number;
  /** Whether the video of V2V steers the result, maybe through masks, and is not itself redrawn by strength. */
  takesMasks?: boolean;
  /**
   * How a mask keeps a part of the image that TI2I edits: the strength of requests that say none. No image is kept in
   * part when left out.
   */
  inpainting?: { readonly strength: number };
  /** How many layers with alpha it splits an image into, which are its result; it makes opaque images when left out. */
  layers?: LayerLimits;
  /** Kinds of control pictures that a request chooses from; it says none where there are none. */
  controlModes?: readonly string[];
  /** Side in pixels of the squares that its image encoder takes, where it has one. */
  visionSide?: number;
  /** Frames that F2V takes from the end of a video, where the model does that. */
  continuedFrames?: number;
  /** How large these are; where left out, they have the size of the result. */
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
  /** Bytes of the device that may be taken; left out where only taking them tells. */
  deviceBytes?: number;
}

/** One image or video to make. */
export interface GenerateRequest extends Omit<SamplingSettings, "negativePrompt"> {
  /** What to draw; not empty. */
  prompt: string;
  /** What to keep away from; the model's own default when left out. */
  negativePrompt?: string;
  /** Pixels per row, a multiple of the model's `sizeMultiple`. */
  width: number;
  /** Number of rows, a multiple of the model's `sizeMultiple`. */
  height: number;
  /** 1 for an image; the model's own default when left out. */
  numFrames?: number;
  /** Seed of the initial noise, a non-negative integer. */
  seed: number;
  /** What to make of the inputs; follows from them when left out. */
  taskType?: TaskType;
  /**
   * Images to start from or to edit, in the order given: of the size of the result, or within the model's
   * `imageLimits` where it has them.
   */
  images?: readonly GivenImage[];
  /** Frames of the video to change or to steer by, or those that it ends with, of the size of the result. */
  video?: readonly Image[];
  /**
   * Which pixels are made anew: white ones. Of a video a frame for each of its own, or the last for the rest; of the first
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
export interface RoomRequest extends
  Pick<
    GenerateRequest,
    | "width"
    | "height"
    | "numFrames"
    | "numInferenceSteps"
    | "guidanceScale"
    | "quality"
    | "decoder"
    | "layers"
    | "enableUpscaling"
    | "upscalingScale"
    | "enableFrameInterpolation"
    | "frameInterpolationExp"
    | "frameInterpolationScale"
    | "controlStart"
    | "controlEnd"
  > {
  /** What it is for. */
  taskType: TaskType;
  /** How many images it brings; none when left out. */
  images?: number;
  /** Whether a mask keeps a part of the first image. */
  hasMask?: boolean;
  /** Whether a control picture steers it. */
  hasControl?: boolean;
  /** How many reference images it brings; none when left out. */
  references?: number;
  /** How often the unfinished image is shown; never when left out. */
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
  /** Bytes per pixel where these are RGBA. */
  channels?: 4;
  /** Frames per second that the model was made for. */
  fps: number;
  /** Seconds by stage. */
  timings: Record<string, number>;
  /** Most device memory taken at once, in bytes. */
  peakBytes: number;
}

/** One loaded model. Generations of one device run one after the other. */
export interface Engine {
  /** How many generations can go on at once; 1 when left out. */
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

/** An engine of this process. */
export interface LocalEngine extends Engine {
  /** LoRAs that were read, for further engines of this model. */
  readonly loras: ModelLoras;
}

/** Parts of a model that lie elsewhere, each a file, a folder, a hub id or `org/name:file`. */
export interface ModelParts {
  /** The denoising transformer; of two experts the one for high noise. */
  transformer?: string;
  /** Of two experts the one for low noise. */
  transformer2?: string;
  /** The image encoder. */
  imageEncoder?: string;
  /** The vision tower of a text encoder whose file has none: llama.cpp's `mmproj`. */
  mmproj?: string;
  /** The text encoder. */
  textEncoder?: string;
  /** Of models with two text encoders the second, such as FLUX.1's T5. */
  textEncoder2?: string;
  /** The autoencoder. */
  vae?: string;
  /** A small decoder for previews and for `decoder: "tiny"`. */
  tinyDecoder?: string;
  /** A network that steers results by a control picture, for `control`. */
  controlnet?: string;
  /** A network that enlarges results, for `enableUpscaling`. */
  upscaler?: string;
  /** A network that puts frames between those of a video, for `enableFrameInterpolation`. */
  frameInterpolator?: string;
  /** A folder with the files of the tokenizer, or of a whole model, or a file that holds one. */
  tokenizer?: string;
  /** Likewise of the second text encoder; what `tokenizer` names has it too where that is a whole model. */
  tokenizer2?: string;
}

/** A component that can leave the device after its work. */
export type OffloadableComponent = "textEncoder" | "vae";

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
  /** Several GPUs make every request together; one when left out. */
  parallel?: ParallelOptions;
}

/** What several GPUs of this machine share of every request. */
export interface ParallelOptions {
  /** Two GPUs, each with the passes of one prompt: nearly twice as fast where a request is guided. */
  guidance?: boolean;
  /**
   * So many GPUs share the tokens of every pass, and in attention the heads. What they compute goes through the
   * computer's memory, so it pays where a step takes long.
   */
  ulysses?: number;
  /** Likewise, but in attention they share the queries; both together multiply. */
  ring?: number;
  /** So many GPUs have some of the transformer's layers each, for models that no single one of them holds; no faster. */
  layers?: number;
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

/** How `loadModel()` loads. */
export interface LoadModelOptions extends DeviceOptions {
  /** What does not come from the model's own folder or file. */
  parts?: ModelParts;
  /** Most bytes of LoRAs kept in memory, those in use aside; 2 GiB when left out. */
  loraCacheBytes?: number;
  /**
   * Called while the model is fetched from the hub (stage `download`), kernels are tuned (`tuning`) and compiled
   * (`kernels`, `done` of `total`), and the weights come in (`weights`); `fraction` is 0 to 1.
   */
  onLoadProgress?: (
    progress: { stage: string; fraction: number; done?: number; total?: number },
  ) => void;
  /** The request whose kernels are compiled while the weights come in; those of no request when left out. */
  prepared?: PreparedRequest;
  /** Called with lines for a log, such as that kernels are tuned. */
  onNote?: (line: string) => void;
  /** Gives up loading. */
  signal?: AbortSignal;
}

/** How one of several cards is opened. */
export type CardAddress = Pick<DeviceSettings, "environment" | "powerPreference" | "sharers">;

/** How to open an engine. */
export interface EngineOptions extends LoadModelOptions {
  /** A model folder in the diffusers layout, a file with its transformer, a hub id, or `org/name:file`. */
  modelPath: string;
  /** As for {@linkcode DeviceOptions}, but `off` when left out. */
  tuning?: "off" | "cached" | "auto";
  /** Files of LoRAs by names that may be given in place of their paths. */
  namedLoras?: Readonly<Record<string, string>>;
  /** Look at the model alone, and load it with the first request. */
  isLazy?: boolean;
  /** Which card, where the machine has several; the first one when left out. */
  card?: CardAddress;
  /** Which cards, where several make every request together; the first ones when left out. */
  groupCards?: readonly CardAddress[];
  /** LoRAs that another engine of this model has read. */
  loras?: ModelLoras;
}

/** What it costs that several GPUs make a request together. */
export interface HandoverEstimate {
  /** How many they are. */
  gpus: number;
  /** Seconds of each step, estimated with a probe on this machine. */
  stepSeconds: number;
  /** How long a step must take on one GPU for that to pay, in seconds; nothing where it is not done for speed. */
  paysFromSeconds?: number;
}

/** What a model's request would take on this machine. */
export interface ModelPlan {
  /** The adapter as the driver names it. */
  adapter: string;
  /** Width that was planned for, in pixels. */
  width: number;
  /** Height that was planned for, in pixels. */
  height: number;
  /** The size at which the model would draw, where it is smaller and the result is enlarged. */
  drawnAt?: Size;
  /** Frames that were planned for; 1 is an image. */
  numFrames: number;
  /** What each stage takes, and whether it fits; of several GPUs that make it together, on the first. */
  memory: MemoryReport;
  /** What handing over costs, where several GPUs make it together. */
  handover?: HandoverEstimate;
}

/** One numeric check that a device went through. */
interface SelfTest {
  /** What was computed. */
  name: string;
  /** `passed`: every case that ran was close enough to the reference; `skipped`: none ran. */
  outcome: "passed" | "failed" | "skipped";
  /** How many cases ran, why none did, or what was wrong. */
  detail: string;
}

/** What a machine's adapter offers and whether it computes what it should. */
export interface DeviceReport {
  /** The adapter as the driver names it. */
  adapter: string;
  /** The maker, as WebGPU gives it; may be empty. */
  vendor: string;
  /** Name and version of the driver, as far as WebGPU tells; may be empty. */
  driver: string;
  /** The WebGPU implementation that was used. */
  backend: "deno" | "dawn";
  /** Whether the adapter computes on the CPU. */
  isSoftware: boolean;
  /** Whether it has no memory of its own, but takes the system's. */
  isUnified: boolean;
  /** Bytes of memory that it takes at most unless a flag says more; left out where only taking them tells. */
  maxBytes?: number;
  /** WebGPU limits by name. */
  limits: Readonly<Record<string, number>>;
  /** Optional features that can be used. */
  features: readonly string[];
  /** Numeric checks in the order they ran; empty when no device could be opened. */
  selfTests: readonly SelfTest[];
  /** Which kernels are used, by op and class of problems. */
  kernels: readonly KernelChoice[];
  /** Where the expanded kernels were written, and how many; none where nobody asked. */
  dump?: { folder: string; files: number };
  /** The tuning run that chose them; none when they are chosen by rule. */
  tuned?: { path: string; date: Date; seconds: number };
}

/** How a tuning run ended. */
export interface TuningReport {
  /** The adapter as the driver names it. */
  adapter: string;
  /** What was measured. */
  tuning: Tuning;
  /** Which kernels are used from now on. */
  kernels: readonly KernelChoice[];
  /** The file that keeps it; none when it could not be written. */
  path: string | undefined;
}
