/** What every family's pipeline offers to the engine. */
import type { Device, RunControl } from "../runtime/mod.ts";

/**
 * How freely a result may be computed: `high` lets the transformer round the factors of its products where that is
 * faster (see `Target.operands`), the others never do.
 */
export type QualityTier = "exact" | "lossless" | "high";

/** Settings of one picture or clip; every field is filled in and checked by the pipeline. */
export interface PipelineRequest {
  readonly prompt: string;
  readonly negativePrompt: string;
  /** Pixels. */
  readonly width: number;
  readonly height: number;
  readonly numFrames: number;
  readonly seed: number;
  readonly numInferenceSteps: number;
  readonly guidanceScale: number;
  /** Prompt tokens are cut to this many. */
  readonly maxSequenceLength?: number;
  /** Both prompts in one pass or one after the other in half the memory; by default whichever fits. */
  readonly guidancePasses?: "batched" | "sequential";
  /** `lossless` when left out. */
  readonly quality?: QualityTier;
  /** First frame of image-to-video: RGB in [-1, 1], `height * width * 3` values. */
  readonly firstFrame?: Float32Array;
}

/** Where a generation stands. Steps count work that the GPU has finished. */
export interface PipelineProgress {
  readonly stage: "encode" | "denoise" | "decode";
  readonly step: number;
  readonly totalSteps: number;
}

/** How a generation may be watched and stopped. */
export interface PipelineControl extends Pick<RunControl, "isCancelled"> {
  onProgress?(progress: PipelineProgress): void;
}

/** What comes out. */
export interface PipelineResult {
  /** RGB in [0, 1], one array of `height * width * 3` per frame. */
  readonly frames: Float32Array[];
  /** Final latents in the transformer's normalised units. */
  readonly latents: Float32Array;
  /** Milliseconds per stage. */
  readonly timings: Readonly<Record<string, number>>;
}

/** Defaults and bounds of a pipeline. */
export interface PipelineDefaults {
  readonly width: number;
  readonly height: number;
  readonly numFrames: number;
  readonly fps: number;
  readonly numInferenceSteps: number;
  readonly guidanceScale: number;
  readonly negativePrompt: string;
}

/** What a pipeline says of itself. */
export interface PipelineInfo {
  /** As `model_index.json` names it. */
  readonly className: string;
  readonly supportedTasks: readonly ("T2I" | "T2V" | "I2V")[];
  readonly defaultTask: "T2I" | "T2V" | "I2V";
  /** Storage types of the weights. */
  readonly precisions: Readonly<Record<"transformer" | "vae" | "textEncoder", string>>;
  readonly defaults: PipelineDefaults;
  /** Sides must be multiples of this many pixels. */
  readonly sizeMultiple: number;
}

/** A model of any family. */
export interface Pipeline extends Disposable {
  readonly info: PipelineInfo;
  /** Uploads the weights. */
  load(device: Device, onProgress?: (fraction: number) => void): Promise<void>;
  /**
   * Makes one picture or clip.
   *
   * @throws {RangeError} when the request does not fit the model
   * @throws {DOMException} `AbortError` when cancelled
   */
  generate(request: PipelineRequest, control?: PipelineControl): Promise<PipelineResult>;
}
