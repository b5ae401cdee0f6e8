/**
 * The fields of a request, a row for each: HTTP's schemas and document, the flags of `generate`, the library's checks
 * and recipes are made from these rows.
 *
 * A new setting is a property of `SamplingSettings` or `OptionalSettings` in `models/`, and a row here.
 */

import type { SamplerName, SamplingSettings } from "../engine/types.ts";
import { isRedrawn } from "../models/pipeline/check_request.ts";
import { PROMPT_SYNTAXES } from "../models/prompt_syntax/parse_prompt.ts";
import { DMD_STEPS, NOISE_SCHEDULES, OWN_SIGMAS, SAMPLERS } from "../models/schedulers/names.ts";
import {
  checkChoice,
  checkFlag,
  checkPrompt,
  checkRange,
  checkSigmas,
  checkSteps,
  checkStrength,
  type Field,
  FLAG,
  type GivenSettings,
  GUIDANCE,
  integerUpTo,
  numberWithin,
  oneOf,
  type SettingField,
  sizeField,
  unlessInterpolated,
  unlessSkipping,
  unlessTaken,
} from "./field_values.ts";
import { HIRES_FIELDS } from "./hires_fields.ts";
import { STEERING_FIELDS } from "./steering_fields.ts";
import { VIDEO_FIELDS } from "./video_fields.ts";
import { outputOf } from "./task.ts";

/** How an image meets the size of the result: it is cut, surrounded by black, or stretched. */
export type FitMode = "cover" | "contain" | "stretch";

export const FITS: readonly FitMode[] = ["cover", "contain", "stretch"];

/** The tiers of `quality`, from the strictest. */
const QUALITY_TIERS: readonly NonNullable<SamplingSettings["quality"]>[] = [
  "exact",
  "lossless",
  "high",
];

const MAX_DOUBLINGS = 4;

/** Largest blur of a mask, in pixels. */
const MAX_BLUR = 256;

/** Most pixels around a mask. */
const MAX_PADDING = 4096;

/** Scales of motion estimation. */
const INTERPOLATION_SCALES: readonly number[] = [0.25, 0.5, 1, 2, 4];

/** What makes pixels, as `decoder` names it. */
const DECODERS: readonly NonNullable<SamplingSettings["decoder"]>[] = ["full", "tiny"];

/** Settings of the sampling, in the order in which recipes tell them. */
export const SETTING_FIELDS: {
  readonly [Name in keyof Required<SamplingSettings>]: SettingField<
    NonNullable<SamplingSettings[Name]>
  >;
} = {
  negativePrompt: {
    text: "Negative prompt: what the result must not show",
    kind: "text",
    placeholder: "text",
    initial: ({ defaults }) => defaults.negativePrompt,
    check: (value, name) => checkPrompt(name, value, true),
  },
  numInferenceSteps: {
    text: "Number of denoising steps",
    kind: "integer",
    placeholder: "steps",
    initial: ({ defaults }, _, given) => ownSteps(given) ?? defaults.numInferenceSteps,
    bounds: ({ maxSteps }) => [1, maxSteps],
    check: (value, name, { maxSteps }, given) => {
      checkSteps(value, maxSteps, name);
      const steps = ownSteps(given) ?? value;
      if (steps === value) return;
      throw new RangeError(
        `${name} must be ${steps}, as many as ${
          given.sigmas ? "sigmas" : "sampler dmd"
        } has, got ${value}; omit it`,
      );
    },
  },
  guidanceScale: {
    text: "Scale of classifier-free guidance (CFG)",
    ...GUIDANCE,
    placeholder: "scale",
    initial: ({ defaults, taskDefaults }, task) =>
      taskDefaults[task]?.guidanceScale ?? defaults.guidanceScale,
  },
  imageGuidanceScale: {
    text:
      "Scale of guidance by the input image (InstructPix2Pix; default: 1.5); below 1 nothing is guided",
    ...GUIDANCE,
    placeholder: "scale",
    idle: unlessTaken("imageGuidanceScale"),
  },
  guidanceRescale: {
    text:
      "Guidance rescale: how far the guided prediction gets the standard deviation of the prompt's own; Lumina 2, LongCat-Image: its norm",
    ...numberWithin(0, 1),
    placeholder: "share",
    initial: ({ defaults }) => defaults.guidanceRescale,
    neutral: 0,
    idle: unlessTaken("guidanceRescale"),
  },
  ...VIDEO_FIELDS,
  guidanceScale2: {
    text:
      "Guidance scale of the low-noise transformer, in models with two (default: `guidance_scale`, if that is set)",
    ...GUIDANCE,
    http: ["guidance_scale_2"],
    placeholder: "scale",
    // One scale alone is for both transformers.
    initial: ({ defaults }, _task, { guidanceScale }) =>
      guidanceScale === undefined || guidanceScale === null ? defaults.guidanceScale2 : undefined,
    idle: unlessTaken("guidanceScale2"),
  },
  cfgZeroStar: {
    text:
      "CFG-Zero* (Wan): rescale the negative prediction to the positive one, and skip the first step",
    ...FLAG,
    neutral: false,
    idle: unlessTaken("cfgZeroStar"),
  },
  skipGuidanceLayers: {
    text: "Skip-layer guidance (Wan): indices of the layers to skip, from 0; costs one more pass",
    kind: "integers",
    placeholder: "layer...",
    check: (value, name) => {
      if (value.length > 0 && value.every((layer) => Number.isSafeInteger(layer) && layer >= 0)) {
        return;
      }
      throw new RangeError(`${name} must be indices of layers, from 0, got [${value}]`);
    },
    idle: unlessTaken("skipGuidanceLayers"),
  },
  skipLayerGuidanceScale: {
    text: "Scale of skip-layer guidance (default: 2.8)",
    ...GUIDANCE,
    placeholder: "scale",
    idle: unlessSkipping("skipLayerGuidanceScale"),
  },
  skipLayerGuidanceStart: {
    text: "Share of the steps after which skip-layer guidance starts (default: 0.01)",
    ...numberWithin(0, 1),
    placeholder: "share",
    idle: unlessSkipping("skipLayerGuidanceStart"),
  },
  skipLayerGuidanceStop: {
    text: "Share of the steps after which skip-layer guidance stops (default: 0.2)",
    ...numberWithin(0, 1),
    placeholder: "share",
    idle: unlessSkipping("skipLayerGuidanceStop"),
  },
  riflex: {
    text:
      "RIFLEx (Wan): stretch temporal RoPE, so that videos longer than the training clips do not loop",
    ...FLAG,
    neutral: false,
    idle: (info, task, given) =>
      outputOf(task) === "VIDEO"
        ? unlessTaken("riflex")(info, task, given)
        : "an image has one frame",
  },
  clipLen: {
    text:
      "Frames of each clip that Wan-Animate-2 makes of a longer video, 5, 9, 13 and so on (default: 37)",
    kind: "integer",
    placeholder: "count",
    check: (value, name) => {
      if (Number.isSafeInteger(value) && value >= 5 && value % 4 === 1) return;
      throw new RangeError(
        `${name} must be a multiple of 4 and 1 more, 5 or above, got ${value}`,
      );
    },
    idle: unlessTaken("clipLen"),
  },
  promptRef: {
    text: "Description of the driving video of Wan-Animate-2 (default: the model's own)",
    kind: "text",
    placeholder: "text",
    check: (value, name) => checkPrompt(name, value),
    idle: unlessTaken("promptRef"),
  },
  systemPrompt: {
    text: "Instruction before the prompt (Lumina 2; default: the model's own)",
    kind: "text",
    placeholder: "text",
    check: (value, name) => checkPrompt(name, value),
    idle: unlessTaken("systemPrompt"),
  },
  layers: {
    text: "Number of layers with alpha (Qwen-Image-Layered); the back layer comes first",
    ...integerUpTo(({ layers }) => layers?.most ?? Infinity),
    placeholder: "count",
    initial: ({ layers }) => layers?.initial,
    idle: unlessTaken("layers"),
  },
  ...STEERING_FIELDS,
  trueCfgScale: {
    text:
      "True CFG scale: adds classifier-free guidance to models with embedded guidance (FLUX.1), and overrides `guidance_scale` elsewhere",
    ...GUIDANCE,
    placeholder: "scale",
    idle: unlessTaken("trueCfgScale"),
  },
  guidanceLimit: {
    text:
      "CFG normalization (Z-Image): largest norm of the guided velocity, relative to the positive one",
    kind: "number",
    http: ["guidance_limit", "cfg_normalization"],
    placeholder: "share",
    check: (value, name) => {
      if (value > 0 && value < Infinity) return;
      throw new RangeError(`${name} must be above 0, got ${value}; omit it for no limit`);
    },
    idle: unlessTaken("guidanceLimit"),
  },
  guidanceEnd: {
    text:
      "CFG truncation: share of the way from noise to image (Z-Image), or of the steps (Lumina 2), after which guidance stops, 0 to 1",
    ...numberWithin(0, 1),
    http: ["guidance_end", "cfg_truncation", "cfg_trunc_ratio"],
    placeholder: "share",
    idle: unlessTaken("guidanceEnd"),
  },
  flowShift: {
    text: "Static shift of the sigmas, 0.001 to 1000: larger values take more steps at high noise",
    ...numberWithin(0.001, 1000),
    placeholder: "shift",
    idle: unlessTaken("flowShift"),
  },
  sampler: {
    text: "Sampler: how a step goes from one sigma to the next (default: the model's)",
    kind: "text",
    choices: SAMPLERS,
    placeholder: "name",
    initial: ({ defaults: { sampler } }, _, given) =>
      sampler && hasOtherLevels(sampler, given) ? OWN_SIGMAS.get(sampler) ?? sampler : sampler,
    check: (value, name, { sampling }, given) => {
      checkChoice(value, name, sampling.samplers);
      const other = given.sigmas ? "sigmas" : given.scheduler ? "scheduler" : undefined;
      const nearest = OWN_SIGMAS.get(value);
      if (!nearest || !other) return;
      throw new RangeError(
        `${name} ${value} has its own sigmas; omit ${other}, or use ${nearest}`,
      );
    },
    idle: unlessTaken("sampler"),
  },
  scheduler: {
    text: "Scheduler: how the sigmas are spaced (default: the model's)",
    kind: "text",
    choices: NOISE_SCHEDULES,
    placeholder: "name",
    initial: ({ defaults: { scheduler } }, _, { sigmas, sampler }) =>
      sigmas || sampler === "dmd" ? undefined : scheduler,
    check: (value, name, { sampling }, given) => {
      checkChoice(value, name, sampling.schedulers);
      if (!given.sigmas) return;
      throw new RangeError(`${name} spaces the sigmas, and sigmas gives them; omit one`);
    },
    idle: unlessTaken("scheduler"),
  },
  sigmas: {
    text:
      "Sigmas, descending; one for each step. Those of flow models are at most 1, before the shift",
    kind: "numbers",
    placeholder: "level...",
    check: (value, name, { sampling }) => checkSigmas(value, name, sampling.maxSigma),
    idle: unlessTaken("sigmas"),
  },
  promptSyntax: {
    text:
      "Syntax of weights in prompts: `plain` (default, none), `a1111`: `(word:1.2)`, `[word]`, `BREAK`, or `comfyui`: `(word:1.2)`",
    ...oneOf(PROMPT_SYNTAXES),
    placeholder: "syntax",
    neutral: "plain",
    idle: unlessTaken("promptSyntax"),
  },
  clipSkip: {
    text:
      "CLIP skip (Stable Diffusion): how many of the last layers of the text encoders are skipped",
    kind: "integer",
    placeholder: "layers",
    bounds: () => [0, 11],
    neutral: 0,
    check: (value, name) => {
      if (Number.isSafeInteger(value) && value >= 0 && value <= 11) return;
      throw new RangeError(`${name} must be an integer from 0 to 11, got ${value}`);
    },
    idle: unlessTaken("clipSkip"),
  },
  originalSize: sizeField(
    "originalSize",
    "Original size that SDXL is told, height and width (default: the output size)",
  ),
  cropsCoordsTopLeft: sizeField(
    "cropsCoordsTopLeft",
    "Top and left of the crop that SDXL is told (default: 0 0)",
    0,
  ),
  targetSize: sizeField(
    "targetSize",
    "Target size that SDXL is told, height and width (default: the output size)",
  ),
  negativeOriginalSize: sizeField(
    "negativeOriginalSize",
    "Original size for the negative prompt of SDXL (default: `original_size`)",
  ),
  negativeCropsCoordsTopLeft: sizeField(
    "negativeCropsCoordsTopLeft",
    "Crop for the negative prompt of SDXL (default: `crops_coords_top_left`)",
    0,
  ),
  negativeTargetSize: sizeField(
    "negativeTargetSize",
    "Target size for the negative prompt of SDXL (default: `target_size`)",
  ),
  refinerStart: {
    text:
      "Share of the way from noise to image after which SDXL's refiner takes over, 0 to 1 (default: 0.8)",
    ...numberWithin(0, 1),
    http: ["refiner_start", "refiner_switch_at", "denoising_end"],
    placeholder: "share",
    idle: unlessTaken("refinerStart"),
  },
  aestheticScore: {
    text: "Aesthetic score that SDXL's refiner is told, 0 to 10 (default: 6)",
    ...numberWithin(0, 10),
    placeholder: "score",
    idle: unlessTaken("aestheticScore"),
  },
  negativeAestheticScore: {
    text: "Aesthetic score for the negative prompt of SDXL's refiner, 0 to 10 (default: 2.5)",
    ...numberWithin(0, 10),
    placeholder: "score",
    idle: unlessTaken("negativeAestheticScore"),
  },
  maxSequenceLength: {
    text: "Maximum number of prompt tokens; the rest is cut off",
    ...integerUpTo(({ maxSequenceLength }) => maxSequenceLength),
    placeholder: "tokens",
    idle: unlessTaken("maxSequenceLength"),
  },
  strength: {
    text: "Denoising strength, above 0 to 1: how much of the input image or video is redrawn",
    kind: "number",
    placeholder: "share",
    bounds: () => [0, 1],
    check: (value) => checkStrength(value),
    idle: (info, task) =>
      task === "V2V" && isRedrawn(info) ||
        info.taskDefaults[task]?.strength !== undefined
        ? undefined
        : `with ${task} this model redraws everything`,
  },
  paddingMaskCrop: {
    text:
      "Inpaint only the area around the mask, with so many pixels around it: it is drawn at `size` and put back into the image, whose size the result has",
    kind: "integer",
    placeholder: "pixels",
    bounds: () => [0, MAX_PADDING],
    check: (value, name, _info, { enableUpscaling }) => {
      if (!Number.isSafeInteger(value) || value < 0 || value > MAX_PADDING) {
        throw new RangeError(`${name} must be an integer from 0 to ${MAX_PADDING}, got ${value}`);
      }
      if (!enableUpscaling) return;
      throw new RangeError(
        `${name} puts what is drawn back into the image, and cannot be used with enable_upscaling; omit one`,
      );
    },
    idle: ({ inpainting }, task) =>
      task === "TI2I" && inpainting ? undefined : "this model redraws images as a whole",
  },
  outpaint: {
    text:
      "Outpaint: pixels by which the image grows to the left, top, right and bottom, 0 to 4096 each; what is added is drawn",
    kind: "integers",
    placeholder: "pixels...",
    check: (value, name) => {
      const areSides = Array.isArray(value) && value.length === 4 && value.some(Boolean) &&
        value.every((side) => Number.isSafeInteger(side) && side >= 0 && side <= MAX_PADDING);
      if (areSides) return;
      throw new RangeError(
        `${name} must be four integers from 0 to ${MAX_PADDING}, left, top, right and bottom, not all 0, got [${value}]`,
      );
    },
    idle: ({ inpainting }, task) =>
      task === "TI2I" && inpainting ? undefined : "this model redraws images as a whole",
  },
  maskBlur: {
    text:
      "Standard deviation of a Gaussian blur of the mask, in pixels, 0 to 256: the result meets the image that softly outside of the mask (default: a soft edge inside of it)",
    ...numberWithin(0, MAX_BLUR),
    placeholder: "pixels",
    neutral: 0,
    idle: ({ inpainting }, task) =>
      task === "TI2I" && inpainting ? undefined : "this model redraws images as a whole",
  },
  ...HIRES_FIELDS,
  quality: {
    text:
      "Precision: `exact` (f32), `lossless` (default: f16 factors, f32 sums), `high` (int8, short sums in f16 and step reuse, where faster)",
    ...oneOf(QUALITY_TIERS),
    placeholder: "tier",
  },
  decoder: {
    text: "`full` (default) decodes with the autoencoder, `tiny` with a faster, less exact decoder",
    kind: "text",
    choices: DECODERS,
    placeholder: "decoder",
    check: (value, name, { optionalParts }) => {
      checkChoice(value, name, DECODERS);
      if (value !== "tiny" || optionalParts.includes("tinyDecoder")) return;
      throw new RangeError(
        `${name} is tiny, and the model has no tiny decoder; name its file with --tiny-decoder at the start, or omit ${name}`,
      );
    },
  },
  enableUpscaling: {
    text: "Enlarge the result with the model's upscaler",
    kind: "flag",
    check: (value, name, { optionalParts, layers }) => {
      checkFlag(value, name);
      if (value && layers) {
        throw new RangeError(`${name} is set, and upscalers do not support alpha; omit ${name}`);
      }
      if (!value || optionalParts.includes("upscaler")) return;
      throw new RangeError(
        `${name} is set, and the model has no upscaler; fetch one with denoise pull realesrgan_x4plus, name a file with --upscaler at the start, or omit ${name}`,
      );
    },
  },
  upscalingScale: {
    text: "Upscaling factor, 2 to 4 (default: 4)",
    ...integerUpTo(() => 4, 2),
    placeholder: "times",
    neutral: 4,
    idle: (_info, _task, { enableUpscaling }) =>
      enableUpscaling === true ? undefined : "nothing is upscaled",
  },
  enableFrameInterpolation: {
    text: "Interpolate frames with the model's frame interpolator",
    kind: "flag",
    check: (value, name, { optionalParts }) => {
      checkFlag(value, name);
      if (!value || optionalParts.includes("frameInterpolator")) return;
      throw new RangeError(
        `${name} is set, and the model has no frame interpolator; ` +
          `fetch one with denoise pull rife_v4.26, name a file with --frame-interpolator at the start, or omit ${name}`,
      );
    },
    idle: (_info, task) => outputOf(task) === "VIDEO" ? undefined : "an image has one frame",
  },
  frameInterpolationExp: {
    text: "Number of times that frame interpolation doubles the frames, 1 to 4 (default: 1)",
    kind: "integer",
    placeholder: "times",
    bounds: () => [1, MAX_DOUBLINGS],
    neutral: 1,
    check: (value, name) => checkRange(value, name, 1, MAX_DOUBLINGS),
    idle: unlessInterpolated(),
  },
  frameInterpolationScale: {
    text: "Scale of motion estimation for frame interpolation: 0.25, 0.5, 1, 2 or 4 (default: 1)",
    kind: "number",
    placeholder: "scale",
    neutral: 1,
    check: (value, name) => {
      if (INTERPOLATION_SCALES.includes(value)) return;
      throw new RangeError(
        `${name} must be one of ${INTERPOLATION_SCALES.join(", ")}, got ${value}`,
      );
    },
    idle: unlessInterpolated(),
  },
};

/** Everything else that a request says of what is to be made. */
export const REQUEST_FIELDS = {
  prompt: { text: "What to make; required", kind: "text", placeholder: "text" },
  wildcards: {
    text:
      "Wildcards: `{red|green}` in the prompt is one of the words, chosen by each result's seed (default: braces are text)",
    kind: "flag",
  },
  width: {
    text: "Width in pixels; overrides `size`",
    kind: "integer",
    placeholder: "pixels",
  },
  height: {
    text: "Height in pixels; overrides `size`",
    kind: "integer",
    placeholder: "pixels",
  },
  taskType: {
    text:
      "`T2I`, `I2I`, `TI2I`, `T2V`, `I2V`, `TI2V`, `V2V` or `F2V` (default: follows from the inputs)",
    kind: "text",
    placeholder: "task",
  },
  seed: {
    text:
      "Seed of the first result, counting up for the others, or one seed for each; -1 (default) draws a new seed, which the answer names",
    kind: "integers",
    placeholder: "seed...",
  },
  numFrames: {
    text: "Number of frames; overrides `seconds`",
    kind: "integer",
    output: "VIDEO",
    placeholder: "count",
  },
  seconds: {
    text: "Duration in seconds",
    kind: "number",
    output: "VIDEO",
    placeholder: "seconds",
  },
  fps: { text: "Frames per second", kind: "integer", output: "VIDEO", placeholder: "rate" },
  fit: {
    text:
      "How an input image is fitted to the output size: `cover` (default) crops, `contain` pads with black, `stretch` distorts",
    kind: "text",
    choices: FITS,
    placeholder: "way",
  },
  control: {
    text:
      "Control picture of a ControlNet: a map of edges or depth, or a pose; several where the model takes them; see `control_type`",
    kind: "texts",
    output: "IMAGE",
    placeholder: "file...",
  },
  referenceMask: {
    text:
      "Where the result shows a reference image of an IP-Adapter: white; one mask for each image, in the order of these",
    kind: "texts",
    output: "IMAGE",
    placeholder: "file...",
  },
  mask: {
    text:
      "Inpainting mask: white, or transparent, where the image is redrawn; for a video, white in an image or a video",
    kind: "text",
    placeholder: "file",
  },
} as const satisfies Readonly<Record<string, Field>>;

export const SETTING_NAMES: readonly (keyof SamplingSettings)[] = Object.keys(SETTING_FIELDS) as (
  keyof SamplingSettings
)[];

function ownSteps({ sigmas, sampler }: GivenSettings): number | undefined {
  const count = typeof sigmas === "number" ? 1 : sigmas?.length;
  return count || (sampler === "dmd" ? DMD_STEPS : undefined);
}

/** Whether the request asks for other sigmas than a sampler's own; `dmd` has one number of steps. */
function hasOtherLevels(
  sampler: SamplerName,
  { sigmas, scheduler, numInferenceSteps }: GivenSettings,
): boolean {
  return Boolean(sigmas || scheduler) ||
    sampler === "dmd" && (numInferenceSteps ?? DMD_STEPS) !== DMD_STEPS;
}
