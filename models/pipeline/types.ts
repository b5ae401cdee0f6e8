/** What every family's pipeline offers to the engine. */
import type { Waveform } from "../../media/waveform.ts";
import type { Device, RunControl } from "../../runtime/mod.ts";
import type { MemoryReport } from "../memory/memory_report.ts";
import type { MemoryOptions, PlanRoom } from "../memory/model_memory.ts";
import type { Phase } from "../memory/session.ts";
import type { AdaptableComponent, AppliedLora } from "../lora/types.ts";
import type { NoiseScheduleName, SamplerName, SamplingChoices } from "../schedulers/mod.ts";
import type { HiresUpscaler, OptionalSettings, RoomSetting, SamplingSettings } from "./settings.ts";

/** A part that a model can do without. */
export type OptionalPart =
  | "tinyDecoder"
  | "controlnet"
  | "ipAdapter"
  | "refiner"
  | "upscaler"
  | "frameInterpolator";

/**
 * What a request asks a model to make, from what; the names of the HTTP contract. Pipelines make an image or a video from
 * text, a video that goes on from an image, an image changed as the text says, a video redrawn after another, and a video
 * that goes on where another ends.
 */
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

/** Latents as {@linkcode PipelineResult} has them, and how they are enlarged to the size of the image. */
export interface GivenLatents {
  /** Pixels per row of the image that they would decode to. */
  readonly width: number;
  /** Rows of that image. */
  readonly height: number;
  /** `channels * rows * columns` values, in the transformer's normalised units. */
  readonly data: Float32Array;
  /** torch's filter. */
  readonly filter: Exclude<HiresUpscaler, "lanczos" | "model">;
}

/** An image that a request brings. */
export interface InputImage {
  /** Pixels per row. */
  readonly width: number;
  /** Number of rows. */
  readonly height: number;
  /** RGB, `height * width * 3` bytes. */
  readonly data: Uint8Array;
  /** `height * width` bytes, 0 where nothing is seen of it, for a model with layers; opaque by default. */
  readonly alpha?: Uint8Array;
  /** The whole image as the model's image encoder takes it: RGB, a square of `visionSide` pixels. */
  readonly vision?: Uint8Array;
  /** Latents to start from instead of `data`, where the model `startsFromLatents`. */
  readonly latents?: GivenLatents;
}

/** Everything that one image or video is made from; every field is filled in and checked by the pipeline. */
export interface PipelineRequest extends Readonly<SamplingSettings> {
  readonly task: TaskType;
  readonly prompt: string;
  /** Pixels. */
  readonly width: number;
  readonly height: number;
  /** Frames of the video; the tasks that make an image give one, whatever is said here. */
  readonly numFrames: number;
  /** Frames per second, for models whose motion and sound follow it; the model's own by default. */
  readonly fps?: number;
  /** Whether a model that gives audio makes it; true by default. */
  readonly enableAudio?: boolean;
  /** The sound of a video that follows it, as `info.takesAudio` says; cut, or followed by silence. The result has none then. */
  readonly audio?: Waveform;
  readonly seed: number;
  /** Whether both prompts go in one pass, or one after the other in half the memory; by default whichever fits. */
  readonly guidancePasses?: "batched" | "sequential";
  /**
   * Input images: of I2V the first frame and maybe the last, of TI2I what to change or to go by; sizes as the
   * pipeline's `imageLimits` say.
   */
  readonly images?: readonly InputImage[];
  /**
   * Of V2V the frames of the video, of F2V at least those that it ends with: RGB, `height * width * 3` bytes. The last
   * stands still where there are too few.
   */
  readonly video?: readonly Uint8Array[];
  /**
   * Of V2V which pixels are redrawn, from 128 on: a frame of `height * width` bytes for each of the video, or the last
   * for the rest. Of TI2I, where `info.inpainting` says so, a single one: 255 where the first image, which has the size of
   * the result then, is redrawn, 0 where it stays as it is. All are redrawn by default.
   */
  readonly mask?: readonly Uint8Array[];
  /** What ControlNets steer the result by, of the size of the result. */
  readonly control?: readonly InputImage[];
  /** What shall be seen in the result, in images of any size, or squares of `referenceSide` pixels. */
  readonly references?: readonly InputImage[];
  /** Where the result shows each reference image: white in an image of the shape of the result. Everywhere by default. */
  readonly referenceMasks?: readonly InputImage[];
  /** LoRAs in the order in which they are applied; none by default. No other request sees them. */
  readonly loras?: readonly AppliedLora[];
}

/** What the memory of a request depends on; the model's own by default, with an IP-Adapter one reference image. */
export interface PlanRequest extends
  Partial<
    Pick<
      PipelineRequest,
      | "task"
      | "prompt"
      | "width"
      | "height"
      | "numFrames"
      | "fps"
      | "enableAudio"
      | "images"
      | "mask"
      | "references"
      | "referenceMasks"
      | RoomSetting
    >
  >,
  Pick<PipelineControl, "previews"> {
  /** Tokens of each prompt; where there is no `prompt` either, the most that there can be. */
  readonly promptTokens?: number;
  /** The control pictures, by default one for each ControlNet of the model. */
  readonly control?: readonly InputImage[];
}

/** How a model is loaded. */
export interface LoadOptions extends MemoryOptions, RunControl {
  /** The request whose kernels are compiled while weights come in; with a short prompt unless it says otherwise. */
  readonly prepared?: PlanRequest;
}

/** Where a generation stands. Steps count work that the GPU has finished. */
export interface PipelineProgress {
  readonly stage: Phase;
  readonly step: number;
  readonly totalSteps: number;
}

/** How a generation may be watched and stopped. */
export interface PipelineControl extends RunControl {
  onProgress?(progress: PipelineProgress): void;
  /**
   * Takes each frame, RGB in [0, 1], as soon as it is decoded and enlarged; the result then holds none. Frames are
   * larger than the request by the upscaler's own factor, whatever `upscalingScale` says.
   */
  onFrame?(frame: Float32Array): void;
  /** Takes the sound, before the first frame; the result then holds none. */
  onAudio?(audio: Waveform): void;
  /** Takes a line for the log. */
  onNote?(line: string): void;
  /** Told before the prompts are cut into tokens, and after: a damaged tokenizer may take for ever. */
  onTokenizing?(isOver: boolean): void;
  /** How many previews are made, evenly over the steps; never more than steps. */
  readonly previews?: number;
  /** Whether the latents are all that is wanted, and nothing is decoded. */
  readonly isLatent?: boolean;
  /** Whether the sound is all that is wanted, and no frame is decoded. */
  readonly isAudioAlone?: boolean;
  /** Takes each preview: a frame, RGB in [0, 1], as it would be if the rest of the noise were gone. */
  onPreview?(frame: Float32Array, index: number): void;
}

/** What comes out. */
export interface PipelineResult {
  /**
   * RGB in [0, 1], one array of `height * width * 3` per frame; of a model with layers RGBA, one for each layer, the one at
   * the back first.
   */
  readonly frames: Float32Array[];
  /** Sound of a model that gives audio; as long as the frames, but for a part of a frame. */
  readonly audio?: Waveform;
  /** Final latents in the transformer's normalised units. */
  readonly latents: Float32Array;
  /** Milliseconds per stage. */
  readonly timings: Readonly<Record<string, number>>;
  /** Prompts that are not read as a whole. */
  readonly cutPrompts: readonly CutPrompt[];
}

/** A prompt of which only a part is read, or nothing. */
export interface CutPrompt {
  /** Which one. */
  readonly prompt: "prompt" | "negative_prompt";
  /** Tokens that it has. */
  readonly tokens: number;
  /** Tokens that are read, from the first one on; 0 of a negative prompt without guidance. */
  readonly read: number;
  /** The first words that are not read. */
  readonly unread: string;
}

/** Defaults and bounds of a pipeline. */
export interface PipelineDefaults {
  /** Pixels per row. */
  readonly width: number;
  /** Number of rows. */
  readonly height: number;
  /** Frames of a video; 1 for an image. */
  readonly numFrames: number;
  /** Frames per second. */
  readonly fps: number;
  /** Number of denoising steps. */
  readonly numInferenceSteps: number;
  /** Weight of classifier-free guidance. */
  readonly guidanceScale: number;
  /** Guidance at low noise, where another transformer is at work. */
  readonly guidanceScale2?: number;
  /** How far the guided output gets the spread or the norm of the prompt's own; 0 where it says nothing. */
  readonly guidanceRescale?: number;
  /** What the model was distilled for, or its scheduler's own; what families leave out is the scheduler's. */
  readonly sampler?: SamplerName;
  /** Spacing of the sigmas; none where it has no name. */
  readonly scheduler?: NoiseScheduleName;
  /** Negative prompt; may be empty. */
  readonly negativePrompt: string;
}

/** What suits one task better than the general defaults. */
export interface TaskDefaults {
  /** Weight of classifier-free guidance. */
  readonly guidanceScale?: number;
  /** Frames of a video. */
  readonly numFrames?: number;
  /** Denoising strength, for tasks where it is the request's to say. */
  readonly strength?: number;
}

/** Given images that keep a size of their own. */
export interface ImageLimits {
  /** Pixels that both sides must be multiples of: what is more is cut off evenly. */
  readonly multiple: number;
  /** Most pixels: larger images are scaled down before they are cut. */
  readonly maxPixels: number;
  /** Shortest side of an image as it comes. */
  readonly minSide: number;
  /** How many times longer one side may be than the other, as it comes. */
  readonly maxAspect: number;
  /** The sizes that it may have: every image is scaled to the one whose shape is nearest. Any by default. */
  readonly sizes?: readonly (readonly [width: number, height: number])[];
  /**
   * A result for which no size is asked has the model's number of pixels in their shape, not their size, with sides that
   * are multiples of this many pixels. It has their size by default.
   */
  readonly shapeMultiple?: number;
  /**
   * A single image is kept whole, whatever its shape: its edges are mirrored up to the multiple, and to the shortest side.
   * With more pixels, or a longer side, it is scaled down first. By default it is treated like one of several.
   */
  readonly alone?: {
    readonly maxPixels: number;
    readonly minSide: number;
    readonly maxSide: number;
  };
}

/** The layers of a model that splits images. */
export interface LayerLimits {
  /** How many there are where a request does not say. */
  readonly initial: number;
  /** How many there can be. */
  readonly most: number;
  /** Sides for which no size is asked are multiples of this many pixels, in the shape of the image. */
  readonly shapeMultiple?: number;
}

/** A textual inversion: vectors that prompts name. */
export interface EmbeddingInfo {
  /** What prompts call it. */
  readonly name: string;
  /** Number of its vectors, each of which takes the place of a token. */
  readonly vectors: number;
  /** Numbers of a vector; of the first text encoder's, where it is for several. */
  readonly width: number;
  /** Whether it is for all of the model's text encoders. */
  readonly isUsable: boolean;
}

/** A ControlNet, or an adapter that steers by a picture too. */
export interface ControlNetInfo {
  /** What requests call it: the name of its file, folder or repository. */
  readonly name: string;
  /** Kinds of pictures that a request chooses from; it says none where there are none. */
  readonly modes?: readonly string[];
}

/** Sound as a model takes it. */
export interface AudioFormat {
  /** Samples per second. */
  readonly sampleRate: number;
  /** How many: 2 of stereo. */
  readonly channels: number;
}

/** What a pipeline says of itself. */
export interface PipelineInfo {
  /** Class of the pipeline, as `model_index.json` names it. */
  readonly className: string;
  /** Every task that the pipeline can do: not empty, none twice. */
  readonly supportedTasks: readonly TaskType[];
  /** Whether the autoencoder's file has its decoder alone, so that inputs with pixels cannot be taken. */
  readonly lacksEncoder?: boolean;
  /** The task of a request that names none; one of `supportedTasks`. */
  readonly defaultTask: TaskType;
  /** Bytes of all weights, as the files have them. */
  readonly weightBytes: number;
  /** Storage types of the weights. */
  readonly precisions: Readonly<Record<"transformer" | "vae" | "textEncoder", string>>;
  /** What a request that says nothing gets. */
  readonly defaults: PipelineDefaults;
  /** What differs from `defaults` when a request is for a certain task. */
  readonly taskDefaults: Readonly<Partial<Record<TaskType, TaskDefaults>>>;
  /** Sides must be multiples of this many pixels. */
  readonly sizeMultiple: number;
  /** Shortest side that can be made, where it is longer than `sizeMultiple`. */
  readonly leastSide?: number;
  /** Shortest and longest side that the model was made for, where it draws much larger ones badly; no limit here. */
  readonly nativeSides?: { readonly least: number; readonly most: number };
  /** Videos have `k * frameMultiple + 1` frames; other numbers are rounded. */
  readonly frameMultiple: number;
  /** Frames that the model has positions for. */
  readonly maxFrames: number;
  /** Fewest images of a task that starts from some; default 1. */
  readonly minImages?: number;
  /** Most images of a request; 0 where it takes none. */
  readonly maxImages: number;
  /** Most images of an edit. */
  readonly maxEditImages: number;
  /** Most reference images of a request; none by default. */
  readonly maxReferences?: number;
  /** Whether a result for which no size is asked has the shape of the first one. */
  readonly isShapedByReferences?: boolean;
  /** Its IP-Adapters, of which requests choose. */
  readonly ipAdapters?: readonly { readonly name: string }[];
  /** Side of the squares that reference images come in; they have any size by default. */
  readonly referenceSide?: number;
  /**
   * Whether V2V moves what an image shows as the video moves: it takes both then. The result is as long as the video; its
   * size is a budget of pixels in the shape of the image or video.
   */
  readonly animates?: true;
  /** Whether a clip steers V2V, maybe through masks, and is not itself redrawn by strength. */
  readonly takesMasks?: boolean;
  /** Whether a clip steers V2V, as LoRAs make of it, and is not itself redrawn by strength. */
  readonly controlsByVideo?: true;
  /** How TI2I keeps a part of the image by a mask: the strength of requests that say none. It does not by default. */
  readonly inpainting?: { readonly strength: number };
  /** Whether TI2I can start from given latents as from an image. */
  readonly startsFromLatents?: true;
  /** Layers with alpha that the model splits its image into, which are its result. */
  readonly layers?: LayerLimits;
  /** Whether its images have alpha, those that it is given too. */
  readonly givesAlpha?: true;
  /** Constant rate factor of H.264, 1 to 51, whose losses it expects in images of videos, where it does. */
  readonly imageCrf?: number;
  /** Whether its videos have sound that it makes. */
  readonly givesAudio?: true;
  /** How it hears a sound that its videos follow, where it does. */
  readonly takesAudio?: AudioFormat;
  /** Its ControlNets, of which requests choose. */
  readonly controlNets: readonly ControlNetInfo[];
  /** Most control pictures of a request, where it takes some; default 1. */
  readonly maxControls?: number;
  /** Whether a control picture may be made of the image and its mask, by `controlType` `inpaint`. */
  readonly controlsInpainting?: boolean;
  /** Whether the model itself sees a control picture, which every request gives. */
  readonly needsControl?: boolean;
  /** Whether its ControlNet sees an image and its mask instead of a control picture. */
  readonly controlsByMask?: boolean;
  /** Frames that a clip should have at its end for F2V; more are not looked at. */
  readonly continuedFrames?: number;
  /** Side of the images that its image encoder takes, where it has one. */
  readonly visionSide?: number;
  /** Sizes of videos that begin with an image and for which none is asked: that in the nearest shape. The default one elsewhere. */
  readonly imageSizes?: readonly { readonly width: number; readonly height: number }[];
  /** Settings that a request may have beside those that every model takes. */
  readonly optionalSettings: readonly (keyof OptionalSettings)[];
  /** What `sampler`, `scheduler` and `sigmas` of a request may be, where the model has these settings. */
  readonly sampling: SamplingChoices;
  /** Most tokens of a prompt that `maxSequenceLength` may ask for; where a request says nothing, prompts have at most 512, or the model's usual number. */
  readonly maxSequenceLength: number;
  /** Size limits of input images; without them, inputs are resized to the output. */
  readonly imageLimits?: ImageLimits;
  /** Which of the parts are there that a model can do without. */
  readonly optionalParts: readonly OptionalPart[];
  /** How many times longer the upscaler makes the sides of a frame; nothing where there is none. */
  readonly upscalerScale?: number;
  /** The name of its file. */
  readonly upscaler?: string;
  /** Textual inversions that its folder had at the start, in models whose prompts may name some. */
  readonly embeddings?: readonly EmbeddingInfo[];
}

/** A model of any family. */
export interface Pipeline extends Disposable {
  readonly info: PipelineInfo;
  /** Components that LoRAs can change. */
  readonly adaptable: readonly AdaptableComponent[];
  /**
   * Uploads the weights, as many as the device's memory takes, and compiles the kernels of a request.
   *
   * @param options how the memory is used from then on, and for what to compile
   * @throws {OutOfMemoryError} when not even the smallest request would fit
   */
  load(
    device: Device,
    onProgress?: (fraction: number) => void,
    options?: LoadOptions,
  ): Promise<void>;
  /**
   * What a request would take of a device where nothing is yet; nothing is uploaded.
   *
   * @throws {RangeError} when the request does not fit the model, or the device cannot hold one of its tensors
   */
  plan(size: PlanRequest, room: PlanRoom, options?: MemoryOptions): Promise<MemoryReport>;
  /**
   * Resolves when a request can be made in a device's room; nothing is uploaded.
   *
   * @throws {RangeError} when the request does not fit the model, or the device cannot hold one of its tensors
   * @throws {OutOfMemoryError} with a table of what is needed, when the memory does not suffice
   */
  check(size: PlanRequest, room: PlanRoom, options?: MemoryOptions): Promise<void>;
  /**
   * Makes one image or video.
   *
   * @throws {RangeError} when the request does not fit the model
   * @throws {DOMException} `AbortError` when cancelled
   */
  generate(request: PipelineRequest, control?: PipelineControl): Promise<PipelineResult>;
  /**
   * Brings LoRAs onto the device, and merges those that are to be merged, so that the next request with the same
   * ones finds them there. Requests do it themselves otherwise.
   *
   * @throws {OutOfMemoryError} when they do not fit; the model is as it was then
   */
  prepare(loras: readonly AppliedLora[]): Promise<void>;
  /**
   * Frees what is kept for the next request of the same kind, where that takes more than this many bytes of the
   * device; weights and LoRAs stay.
   */
  release(bytes: number): void;
}
