/** What a request may say of sampling. */
import type { PromptSyntax } from "../prompt_syntax/parse_prompt.ts";
import type { NoiseScheduleName, SamplerName } from "../schedulers/mod.ts";

/**
 * How freely a result may be computed: `exact` with f32 throughout; `lossless` also with factors of f16 where weights
 * have 16 bits or fewer; `high` also with activations of int8 and short sums in f16 in the transformer where that is faster
 * (see `Target.operands`), and steps that reuse what it gave the step before.
 */
export type QualityTier = "exact" | "lossless" | "high";

/** What makes pixels of latents: the autoencoder, or a tiny decoder, which is faster and less exact. */
export type DecoderKind = "full" | "tiny";

/**
 * What becomes of a control picture before the model sees it: nothing, or its edges by Canny's detector; or the picture is the
 * input image without what its mask redraws, and none is given for it.
 */
export type ControlType = "map" | "canny" | "inpaint";

/**
 * Whether a control picture or the prompt counts more: `prompt` weakens what is added to large skip connections; `control` does
 * so, too, and steers the prompt's pass alone, as diffusers' `guess_mode`.
 */
export const CONTROL_BALANCES = ["balanced", "prompt", "control"] as const;

/**
 * How a model that edits sees reference images beside the result, as LoRAs were trained for: each by itself in its middle, at
 * the timestep of the result; or each from its first row and column on, at timestep 0. The names are ComfyUI's.
 */
export const REFERENCE_METHODS = ["index", "index_timestep_zero"] as const;

/** One of {@linkcode REFERENCE_METHODS}. */
export type ReferenceMethod = typeof REFERENCE_METHODS[number];

/** One of {@linkcode CONTROL_BALANCES}. */
export type ControlBalance = typeof CONTROL_BALANCES[number];

/** Which attentions see reference images: all, or those of style, of layout, or of both. */
export type IpAdapterMode = "all" | "style" | "layout" | "style_layout";

/** How the sides of a hires fix grow: latents by torch's filters, or pixels by Lanczos's filter or the model's upscaler. */
export const HIRES_UPSCALERS = [
  "latent",
  "latent_antialiased",
  "latent_bicubic",
  "latent_bicubic_antialiased",
  "latent_nearest",
  "latent_nearest_exact",
  "lanczos",
  "model",
] as const;

/** One of {@linkcode HIRES_UPSCALERS}. */
export type HiresUpscaler = typeof HIRES_UPSCALERS[number];

/**
 * A hires fix: an image from text is made, enlarged, and denoised again by a strength. A scale or a size asks for it; the
 * settings of the second pass are those of the first by default.
 */
export interface HiresSettings {
  /** How many times longer the sides become, above 1 to 4. */
  hiresScale?: number;
  /** Width after the hires fix, in pixels, instead of a scale; the image's shape gives the other side if only one is said. */
  hiresWidth?: number;
  /** Height after the hires fix, in pixels, instead of a scale. */
  hiresHeight?: number;
  /** What enlarges the image; `latent` by default where the model takes latents, else `lanczos`. */
  hiresUpscaler?: HiresUpscaler;
  /** Denoising strength of the second pass, above 0 to 1; default 0.7. */
  hiresStrength?: number;
  /** Number of denoising steps of the second pass, whatever its strength. */
  hiresSteps?: number;
  /** Prompt of the second pass. */
  hiresPrompt?: string;
  /** Negative prompt of the second pass. */
  hiresNegativePrompt?: string;
  /** Sampler of the second pass. */
  hiresSampler?: SamplerName;
  /** Scheduler of the second pass. */
  hiresScheduler?: NoiseScheduleName;
}

/** What a request may say of sampling that not every model has. */
export interface OptionalSettings {
  /** How prompts say what weighs more: not at all, as in AUTOMATIC1111's web UI, or as in ComfyUI; default `plain`. */
  promptSyntax?: PromptSyntax;
  /** How many of the last layers of CLIP's text towers the prompts do not pass, 0 to 11; default 0. */
  clipSkip?: number;
  /** Height and width that the image has before it is scaled or cut, as SDXL sees them; those of the result by default. */
  originalSize?: readonly number[];
  /** Rows above and columns left of the result that were cut off the scaled image, as SDXL sees them; default 0 and 0. */
  cropsCoordsTopLeft?: readonly number[];
  /** Height and width that the result shall look made for, as SDXL sees them; its own by default. */
  targetSize?: readonly number[];
  /** `originalSize` of the negative prompt; that of the prompt by default. */
  negativeOriginalSize?: readonly number[];
  /** `cropsCoordsTopLeft` of the negative prompt; those of the prompt by default. */
  negativeCropsCoordsTopLeft?: readonly number[];
  /** `targetSize` of the negative prompt; that of the prompt by default. */
  negativeTargetSize?: readonly number[];
  /** Share of the way from noise to image after which SDXL's refiner takes over, 0 to 1; default 0.8. */
  refinerStart?: number;
  /** How beautiful the result shall be, as SDXL's refiner sees it, 0 to 10; default 6. */
  aestheticScore?: number;
  /** `aestheticScore` of the negative prompt; default 2.5. */
  negativeAestheticScore?: number;
  /** Weight of classifier-free guidance beside an embedded one (true CFG), or instead of `guidanceScale`, at least 0. */
  trueCfgScale?: number;
  /** Longest guided velocity, as a share of the prompt's own, above 0; without a limit by default. */
  guidanceLimit?: number;
  /** Weight of the input image beside that of the prompt, in models that edit by instructions, at least 0; default 1.5. */
  imageGuidanceScale?: number;
  /** How far the guided output gets the spread of the prompt's own, 0 to 1; default 0, of LTX-2 0.7, of Lumina 2 and LongCat-Image 1. */
  guidanceRescale?: number;
  /** Weight of guidance away from what some blocks make without attention (spatio-temporal guidance), at least 0. */
  stgScale?: number;
  /** These blocks, from 0. */
  stgBlocks?: readonly number[];
  /** Weight of guidance away from a video and its sound that do not see each other, at least 0; 1 does nothing. */
  modalityScale?: number;
  /** Weight of classifier-free guidance of the sound beside a video, at least 0. */
  audioGuidanceScale?: number;
  /** `stgScale` of the sound. */
  audioStgScale?: number;
  /** `modalityScale` of the sound. */
  audioModalityScale?: number;
  /** `guidanceRescale` of the sound. */
  audioGuidanceRescale?: number;
  /** Whether a video is made smaller first, and the latent upsampler then enlarges it. */
  twoStages?: boolean;
  /** Frames of the video that the images are for, from 0, one for each; evenly spread by default. */
  imageFrames?: readonly number[];
  /** How much the images count where they stand, 0 to 1, default 1: one for all, or one for each. */
  imageStrengths?: readonly number[];
  /** Constant rate factor of H.264, by which the images are compressed before they come to the pipeline; 0 leaves them as they are. */
  imageCrf?: number;
  /** Share of the way from noise to image after which nothing is guided, 0 to 1; default 1. */
  guidanceEnd?: number;
  /** Weight of classifier-free guidance at low noise, where another transformer is at work; as before by default. */
  guidanceScale2?: number;
  /** Whether guidance starts from the negative output as far as it is alike, and leaves the first step out (CFG-Zero*). */
  cfgZeroStar?: boolean;
  /** Layers whose absence the result is guided away from (skip-layer guidance), from 0. */
  skipGuidanceLayers?: readonly number[];
  /** Weight of skip-layer guidance, at least 0; default 2.8. */
  skipLayerGuidanceScale?: number;
  /** Share of the steps after which skip-layer guidance begins; default 0.01. */
  skipLayerGuidanceStart?: number;
  /** Share of the steps at which it ends; default 0.2. */
  skipLayerGuidanceStop?: number;
  /** Whether positions in time are spread so that a video longer than those of the training does not repeat (RIFLEx). */
  riflex?: boolean;
  /** Frames that are made at once of a video whose length follows from another's: a multiple of 4 and 1 more. */
  clipLen?: number;
  /** What the driving video shows, in words, where a character is moved by one. */
  promptRef?: string;
  /** What models that follow instructions are told before the prompt. */
  systemPrompt?: string;
  /** How many layers an image is split into, where the model's `layers` says so. */
  layers?: number;
  /**
   * Weights of what steers the result, the model's own by default: one, or one for each control picture, as in the settings
   * that follow, or one for each control block of VACE.
   */
  controlScale?: readonly number[];
  /** Share of the steps after which a control picture begins to steer, 0 to 1; default 0. */
  controlStart?: readonly number[];
  /** Share of the steps at which it ends; default 1. */
  controlEnd?: readonly number[];
  /** Which of the model's `controlNets` sees the control picture; the first one sees the first by default, and so on. */
  controlNet?: readonly string[];
  /** What kind of map the control picture is, one of the `modes` of its ControlNet. */
  controlMode?: readonly string[];
  /** Whether the control picture or the prompt counts more; default `balanced`. */
  controlBalance?: readonly ControlBalance[];
  /** What becomes of it before the model sees it; default `map`. */
  controlType?: readonly ControlType[];
  /** Gradient below which `canny` sees no edge, 0 to 2040; default 100. */
  cannyLow?: readonly number[];
  /** Gradient from which `canny` sees an edge wherever it is, 0 to 2040; default 200. */
  cannyHigh?: readonly number[];
  /** How reference images are seen beside the result (Krea 2); default `index`. */
  referenceMethod?: ReferenceMethod;
  /** Which of the model's `ipAdapters` sees a reference image; of several the first one sees the first by default, and so on. */
  ipAdapterName?: readonly string[];
  /** Weight of what an IP-Adapter makes of reference images, 0 to 10; default 1: one, or one for each image, as in what follows. */
  ipAdapterScale?: readonly number[];
  /** Which attentions of SDXL see them; default `all`. */
  ipAdapterMode?: readonly IpAdapterMode[];
  /** Share of the steps after which reference images begin to be seen, 0 to 1; default 0. */
  ipAdapterStart?: readonly number[];
  /** Share of the steps at which that ends; default 1. */
  ipAdapterEnd?: readonly number[];
  /** Static shift of the sigmas, 0.001 to 1000: larger ones take more steps at high noise. */
  flowShift?: number;
  /** Most tokens of a prompt; the rest is cut off. */
  maxSequenceLength?: number;
  /** How a step goes from one noise level to the next; the model's own by default. */
  sampler?: SamplerName;
  /** How the sigmas are spaced; the model's own by default. */
  scheduler?: NoiseScheduleName;
  /** The sigmas before the shift, one for each step, descending from 1 at most. */
  sigmas?: readonly number[];
}

/** The names of {@linkcode OptionalSettings}; the compiler asks for those that are missing here. */
const OPTIONAL_NAMES: Readonly<Record<keyof OptionalSettings, true>> = {
  promptSyntax: true,
  trueCfgScale: true,
  clipSkip: true,
  originalSize: true,
  cropsCoordsTopLeft: true,
  targetSize: true,
  negativeOriginalSize: true,
  negativeCropsCoordsTopLeft: true,
  negativeTargetSize: true,
  refinerStart: true,
  aestheticScore: true,
  negativeAestheticScore: true,
  imageGuidanceScale: true,
  guidanceRescale: true,
  stgScale: true,
  stgBlocks: true,
  modalityScale: true,
  audioGuidanceScale: true,
  audioStgScale: true,
  audioModalityScale: true,
  audioGuidanceRescale: true,
  twoStages: true,
  imageFrames: true,
  imageStrengths: true,
  imageCrf: true,
  guidanceLimit: true,
  guidanceEnd: true,
  guidanceScale2: true,
  cfgZeroStar: true,
  skipGuidanceLayers: true,
  skipLayerGuidanceScale: true,
  skipLayerGuidanceStart: true,
  skipLayerGuidanceStop: true,
  riflex: true,
  clipLen: true,
  promptRef: true,
  systemPrompt: true,
  layers: true,
  controlScale: true,
  controlStart: true,
  controlEnd: true,
  controlNet: true,
  controlMode: true,
  controlBalance: true,
  controlType: true,
  cannyLow: true,
  cannyHigh: true,
  referenceMethod: true,
  ipAdapterName: true,
  ipAdapterScale: true,
  ipAdapterMode: true,
  ipAdapterStart: true,
  ipAdapterEnd: true,
  flowShift: true,
  maxSequenceLength: true,
  sampler: true,
  scheduler: true,
  sigmas: true,
};

/** The names of {@linkcode OptionalSettings}. */
export const OPTIONAL_SETTINGS = Object.keys(OPTIONAL_NAMES) as readonly (keyof OptionalSettings)[];

/** What a request says of sampling. */
export interface SamplingSettings extends OptionalSettings, HiresSettings {
  /** Negative prompt. */
  negativePrompt: string;
  /** Number of denoising steps, at least 1. */
  numInferenceSteps: number;
  /** Weight of classifier-free guidance, at least 0. */
  guidanceScale: number;
  /** Denoising strength, above 0 to 1: the share of the steps that an input video or image goes through. */
  strength?: number;
  /** Redraws only the area around a mask, with so many pixels around it; it is drawn at a size of its own and put back. */
  paddingMaskCrop?: number;
  /** Pixels by which an image grows to the left, top, right and bottom; what is added is drawn. */
  outpaint?: readonly number[];
  /** Standard deviation, in pixels, by which the edge of a mask is blurred to both sides where the result meets the image. */
  maskBlur?: number;
  /** Precision of the computation; default `lossless`. */
  quality?: QualityTier;
  /** What makes the pixels; default `full`. */
  decoder?: DecoderKind;
  /** Whether an upscaler enlarges what is decoded. */
  enableUpscaling?: boolean;
  /** How many times longer the sides of the result are then, 2 to 4; default 4. */
  upscalingScale?: number;
  /** Whether frames are put between those of a video. */
  enableFrameInterpolation?: boolean;
  /** How often the frames are doubled then, 1 or 2: n frames become (n − 1)·2^exp + 1; default 1. */
  frameInterpolationExp?: number;
  /** Scale at which motion is looked for: 0.25, 0.5, 1, 2 or 4; default 1. */
  frameInterpolationScale?: number;
}

/** A setting on which the memory of a request depends. */
export type RoomSetting =
  | "numInferenceSteps"
  | "sampler"
  | "guidanceScale"
  | "stgScale"
  | "stgBlocks"
  | "modalityScale"
  | "audioGuidanceScale"
  | "audioStgScale"
  | "audioModalityScale"
  | "twoStages"
  | "imageFrames"
  | "imageStrengths"
  | "maxSequenceLength"
  | "quality"
  | "decoder"
  | "layers"
  | "clipLen"
  | "enableUpscaling"
  | "enableFrameInterpolation"
  | "frameInterpolationExp"
  | "frameInterpolationScale"
  | "controlNet"
  | "referenceMethod"
  | "ipAdapterName"
  | "controlType"
  | "controlStart"
  | "controlEnd"
  | "hiresScale"
  | "hiresWidth"
  | "hiresHeight"
  | "hiresUpscaler"
  | "hiresStrength"
  | "hiresSteps"
  | "hiresSampler";

const ROOM_NAMES: Readonly<Record<RoomSetting, true>> = {
  numInferenceSteps: true,
  sampler: true,
  guidanceScale: true,
  stgScale: true,
  stgBlocks: true,
  modalityScale: true,
  audioGuidanceScale: true,
  audioStgScale: true,
  audioModalityScale: true,
  twoStages: true,
  imageFrames: true,
  imageStrengths: true,
  maxSequenceLength: true,
  quality: true,
  decoder: true,
  layers: true,
  clipLen: true,
  enableUpscaling: true,
  enableFrameInterpolation: true,
  frameInterpolationExp: true,
  frameInterpolationScale: true,
  controlNet: true,
  referenceMethod: true,
  ipAdapterName: true,
  controlType: true,
  controlStart: true,
  controlEnd: true,
  hiresScale: true,
  hiresWidth: true,
  hiresHeight: true,
  hiresUpscaler: true,
  hiresStrength: true,
  hiresSteps: true,
  hiresSampler: true,
};

/** The settings on which the memory of a request depends. */
export const ROOM_SETTINGS = Object.keys(ROOM_NAMES) as readonly RoomSetting[];
