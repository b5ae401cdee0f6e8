/**
 * The fields of a request, a row for each: HTTP's schemas and document, the flags of `generate`, the library's checks
 * and recipes are made from these rows.
 *
 * A new setting is a property of `SamplingSettings` or `OptionalSettings` in `models/`, and a row here.
 */

import type { SamplingSettings } from "../engine/types.ts";
import { DMD_STEPS, NOISE_SCHEDULES, SAMPLERS } from "../models/schedulers/names.ts";
import type { Field, GivenSettings, SettingField } from "./field.ts";
import {
  checkChoice,
  checkFlag,
  checkRange,
  checkSigmas,
  checkWord,
  FLAG,
  GUIDANCE,
  integerUpTo,
  numberWithin,
  oneOf,
} from "./field_values.ts";
import { unlessCanny, unlessInterpolated, unlessSkipping, unlessTaken } from "./idle_settings.ts";
import { checkPrompt, checkSteps, checkStrength } from "./sampling.ts";
import { outputOf } from "./task.ts";

/** Largest weight of a control. */
const MAX_CONTROL_SCALE = 10;

/** How an image meets the size of the result: it is cut, surrounded by black, or stretched. */
export type FitMode = "cover" | "contain" | "stretch";

/** Every way in which an image may meet the size of the result. */
export const FITS: readonly FitMode[] = ["cover", "contain", "stretch"];

/** What control pictures may be. */
const CONTROL_TYPES: readonly NonNullable<SamplingSettings["controlType"]>[] = [
  "map",
  "canny",
];

/** Longest gradient that a picture can have. */
const MAX_GRADIENT = 2040;

/** The tiers of `quality`, from the strictest. */
const QUALITY_TIERS: readonly NonNullable<SamplingSettings["quality"]>[] = [
  "exact",
  "lossless",
  "high",
];

/** Scales at which frame interpolation can look for motion. */
/** Most times that frames are doubled. */
const MAX_DOUBLINGS = 4;
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
    text: "What to keep away from",
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
        } has, got ${value}; leave it out`,
      );
    },
  },
  guidanceScale: {
    text: "Weight of classifier-free guidance",
    ...GUIDANCE,
    placeholder: "scale",
    initial: ({ defaults, taskDefaults }, task) =>
      taskDefaults[task]?.guidanceScale ?? defaults.guidanceScale,
  },
  guidanceScale2: {
    text: "`guidance_scale` of the transformer for low noise, where the model has two",
    ...GUIDANCE,
    http: ["guidance_scale_2"],
    placeholder: "scale",
    // Whoever names the first weight alone means both.
    initial: ({ defaults }, _task, { guidanceScale }) =>
      guidanceScale === undefined || guidanceScale === null ? defaults.guidanceScale2 : undefined,
    idle: unlessTaken("guidanceScale2"),
  },
  cfgZeroStar: {
    text:
      "Guide from what the negative prompt gives as far as it is alike, and leave the first step out",
    ...FLAG,
    neutral: false,
    idle: unlessTaken("cfgZeroStar"),
  },
  skipGuidanceLayers: {
    text: "Layers whose absence the result is guided away from, from 0",
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
    text: "Weight of guidance away from what lacks layers; 2.8 when left out",
    ...GUIDANCE,
    placeholder: "scale",
    idle: unlessSkipping("skipLayerGuidanceScale"),
  },
  skipLayerGuidanceStart: {
    text: "Share of the steps after which it begins; 0.01 when left out",
    ...numberWithin(0, 1),
    placeholder: "share",
    idle: unlessSkipping("skipLayerGuidanceStart"),
  },
  skipLayerGuidanceStop: {
    text: "Share of the steps at which it ends; 0.2 when left out",
    ...numberWithin(0, 1),
    placeholder: "share",
    idle: unlessSkipping("skipLayerGuidanceStop"),
  },
  riflex: {
    text:
      "Spread positions in time, so that a video longer than those of the training does not repeat",
    ...FLAG,
    neutral: false,
    idle: unlessTaken("riflex"),
  },
  clipLen: {
    text:
      "Frames that Wan-Animate-2 makes at once of a longer video, a multiple of 4 and 1 more; 37 when left out",
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
    text: "What the driving video of Wan-Animate-2 shows; the model's own words when left out",
    kind: "text",
    placeholder: "text",
    check: (value, name) => checkPrompt(name, value),
    idle: unlessTaken("promptRef"),
  },
  layers: {
    text: "How many layers with alpha an image is split into, the one at the back first",
    ...integerUpTo(({ layers }) => layers?.most ?? Infinity),
    placeholder: "count",
    initial: ({ layers }) => layers?.initial,
    idle: unlessTaken("layers"),
  },
  controlScale: {
    text: "Weight of what steers the result, or one for each control block of VACE",
    kind: "numbers",
    http: ["control_scale", "conditioning_scale", "controlnet_conditioning_scale"],
    placeholder: "scale...",
    check: (value, name) => {
      if (value.length === 0) throw new RangeError(`${name} must not be an empty list`);
      for (const scale of value) checkRange(scale, name, 0, MAX_CONTROL_SCALE);
    },
    idle: unlessTaken("controlScale"),
  },
  controlStart: {
    text: "Share of the steps after which the control picture begins to steer; 0 when left out",
    kind: "number",
    http: ["control_start", "control_guidance_start"],
    placeholder: "share",
    bounds: () => [0, 1],
    check: (value, name, _info, { controlEnd }) => {
      checkRange(value, name, 0, 1);
      if (typeof controlEnd === "number" && value >= controlEnd) {
        throw new RangeError(`${name} must be below ${controlEnd}, where it ends, got ${value}`);
      }
    },
    idle: unlessTaken("controlStart"),
  },
  controlEnd: {
    text: "Share of the steps at which it ends; 1 when left out",
    ...numberWithin(0, 1),
    http: ["control_end", "control_guidance_end"],
    placeholder: "share",
    idle: unlessTaken("controlEnd"),
  },
  controlMode: {
    text: "What the control picture shows, such as `canny` or `pose`, where the ControlNet asks",
    kind: "text",
    placeholder: "mode",
    check: checkWord,
    idle: unlessTaken("controlMode"),
  },
  controlType: {
    text:
      "What the control picture is: a `map` (default), or a picture of whose edges (`canny`) one is made",
    ...oneOf(CONTROL_TYPES),
    placeholder: "type",
    idle: unlessTaken("controlType"),
  },
  cannyLow: {
    text: "Gradient below which `canny` sees no edge, 0 to 2040; 100 when left out",
    ...numberWithin(0, MAX_GRADIENT),
    placeholder: "gradient",
    idle: unlessCanny("cannyLow"),
  },
  cannyHigh: {
    text: "Gradient above which it always sees one, 0 to 2040; 200 when left out",
    ...numberWithin(0, MAX_GRADIENT),
    placeholder: "gradient",
    idle: unlessCanny("cannyHigh"),
  },
  trueCfgScale: {
    text:
      "Weight of classifier-free guidance where `guidance_scale` is an input of the model; it wins over that one where it is not",
    ...GUIDANCE,
    placeholder: "scale",
    idle: unlessTaken("trueCfgScale"),
  },
  guidanceLimit: {
    text: "Longest guided velocity, as a share of the prompt's own",
    kind: "number",
    http: ["guidance_limit", "cfg_normalization"],
    placeholder: "share",
    check: (value, name) => {
      if (value > 0 && value < Infinity) return;
      throw new RangeError(`${name} must be above 0, got ${value}; leave it out for no limit`);
    },
    idle: unlessTaken("guidanceLimit"),
  },
  guidanceEnd: {
    text: "Share of the way from noise to image after which nothing is guided, 0 to 1",
    ...numberWithin(0, 1),
    http: ["guidance_end", "cfg_truncation"],
    placeholder: "share",
    idle: unlessTaken("guidanceEnd"),
  },
  flowShift: {
    text:
      "Static shift of the noise levels, 0.001 to 1000: larger ones take more steps at high noise",
    ...numberWithin(0.001, 1000),
    placeholder: "shift",
    idle: unlessTaken("flowShift"),
  },
  sampler: {
    text: "How a step goes from one noise level to the next; the model's own way when left out",
    kind: "text",
    choices: SAMPLERS,
    placeholder: "name",
    initial: ({ defaults: { sampler } }, _, given) =>
      sampler === "dmd" && hasOtherLevels(given) ? "lcm" : sampler,
    check: (value, name, _, given) => {
      checkChoice(value, name, SAMPLERS);
      const other = given.sigmas ? "sigmas" : given.scheduler ? "scheduler" : undefined;
      if (value !== "dmd" || !other) return;
      throw new RangeError(
        `${name} dmd has noise levels of its own; leave ${other} out, or use lcm`,
      );
    },
    idle: unlessTaken("sampler"),
  },
  scheduler: {
    text: "How the noise levels are spaced; the model's own way when left out",
    kind: "text",
    choices: NOISE_SCHEDULES,
    placeholder: "name",
    initial: ({ defaults: { scheduler } }, _, { sigmas, sampler }) =>
      sigmas || sampler === "dmd" ? undefined : scheduler,
    check: (value, name, _, given) => {
      checkChoice(value, name, NOISE_SCHEDULES);
      if (!given.sigmas) return;
      throw new RangeError(`${name} chooses noise levels, and sigmas gives them; leave one out`);
    },
    idle: unlessTaken("scheduler"),
  },
  sigmas: {
    text: "Noise levels before the shift, descending from 1 at most; one for each step",
    kind: "numbers",
    placeholder: "level...",
    check: checkSigmas,
    idle: unlessTaken("sigmas"),
  },
  maxSequenceLength: {
    text: "Most tokens of a prompt; the rest is cut off",
    ...integerUpTo(({ maxSequenceLength }) => maxSequenceLength),
    placeholder: "tokens",
    idle: unlessTaken("maxSequenceLength"),
  },
  strength: {
    text: "Denoising strength: how much of an input video or image is made anew, above 0 to 1",
    kind: "number",
    placeholder: "share",
    bounds: () => [0, 1],
    check: (value) => checkStrength(value),
    idle: (info, task) =>
      task === "V2V" && !info.takesMasks && !info.animates ||
        info.taskDefaults[task]?.strength !== undefined
        ? undefined
        : `with ${task} this model makes everything anew`,
  },
  quality: {
    text: "How freely the result may be computed",
    ...oneOf(QUALITY_TIERS),
    placeholder: "tier",
  },
  decoder: {
    text:
      "What makes the pixels: the autoencoder (`full`), or a faster and less exact decoder (`tiny`)",
    kind: "text",
    choices: DECODERS,
    placeholder: "decoder",
    check: (value, name, { optionalParts }) => {
      checkChoice(value, name, DECODERS);
      if (value !== "tiny" || optionalParts.includes("tinyDecoder")) return;
      throw new RangeError(
        `${name} is tiny, and the model has no tiny decoder; name its file with --tiny-decoder at the start, or leave ${name} out`,
      );
    },
  },
  enableUpscaling: {
    text: "Enlarge the result with the model's upscaler",
    kind: "flag",
    check: (value, name, { optionalParts, layers }) => {
      checkFlag(value, name);
      if (value && layers) {
        throw new RangeError(`${name} is set, and upscalers know no alpha; leave ${name} out`);
      }
      if (!value || optionalParts.includes("upscaler")) return;
      throw new RangeError(
        `${name} is set, and the model has no upscaler; name its file with --upscaler at the start, or leave ${name} out`,
      );
    },
  },
  upscalingScale: {
    text: "How many times longer upscaling makes the sides, 2 to 4; 4 when left out",
    ...integerUpTo(() => 4, 2),
    placeholder: "times",
    neutral: 4,
    idle: (_info, _task, { enableUpscaling }) =>
      enableUpscaling === true ? undefined : "nothing is upscaled",
  },
  enableFrameInterpolation: {
    text: "Put frames between those of a video with the model's frame interpolator",
    kind: "flag",
    check: (value, name, { optionalParts }) => {
      checkFlag(value, name);
      if (!value || optionalParts.includes("frameInterpolator")) return;
      throw new RangeError(
        `${name} is set, and the model has no frame interpolator; ` +
          `name its file with --frame-interpolator at the start, or leave ${name} out`,
      );
    },
    idle: (_info, task) => outputOf(task) === "VIDEO" ? undefined : "an image has one frame",
  },
  frameInterpolationExp: {
    text: "How often frame interpolation doubles the frames, 1 to 4; 1 when left out",
    kind: "integer",
    placeholder: "times",
    bounds: () => [1, MAX_DOUBLINGS],
    neutral: 1,
    check: (value, name) => checkRange(value, name, 1, MAX_DOUBLINGS),
    idle: unlessInterpolated(),
  },
  frameInterpolationScale: {
    text: "Scale at which frame interpolation looks for motion, 0.25 to 4; 1 when left out",
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
  width: {
    text: "Width in pixels; wins over `size`",
    kind: "integer",
    placeholder: "pixels",
  },
  height: {
    text: "Height in pixels; wins over `size`",
    kind: "integer",
    placeholder: "pixels",
  },
  taskType: {
    text: "`T2I`, `I2I`, `TI2I`, `T2V`, `I2V`, `TI2V`, `V2V` or `F2V`; follows from the inputs",
    kind: "text",
    placeholder: "task",
  },
  seed: {
    text:
      "Seed of the first result, the next ones count on; or one for each. Left out or -1, a new one is drawn, " +
      "and the answer tells it",
    kind: "integers",
    placeholder: "seed...",
  },
  numFrames: {
    text: "Number of frames; wins over `seconds`",
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
      "How an input image meets the size of the result: `cover` (default) cuts off what is too much, `contain` " +
      "shows all of it on black, `stretch` changes its shape",
    kind: "text",
    choices: FITS,
    placeholder: "way",
  },
  control: {
    text: "What a ControlNet steers an image by: a map of edges, depth, a pose; see `control_type`",
    kind: "text",
    output: "IMAGE",
    placeholder: "file",
  },
  mask: {
    text:
      "What is made anew: an image that is white, or transparent, there, and black elsewhere; for a video, white in an " +
      "image or a video",
    kind: "text",
    placeholder: "file",
  },
} as const satisfies Readonly<Record<string, Field>>;

/** Names of the settings. */
export const SETTING_NAMES: readonly (keyof SamplingSettings)[] = Object.keys(SETTING_FIELDS) as (
  keyof SamplingSettings
)[];

/** The number of steps that follows from other settings. */
function ownSteps({ sigmas, sampler }: GivenSettings): number | undefined {
  const count = typeof sigmas === "number" ? 1 : sigmas?.length;
  return count || (sampler === "dmd" ? DMD_STEPS : undefined);
}

/** Whether other noise levels are asked for than those of `dmd`, which `lcm` takes. */
function hasOtherLevels({ sigmas, scheduler, numInferenceSteps }: GivenSettings): boolean {
  return Boolean(sigmas || scheduler) || (numInferenceSteps ?? DMD_STEPS) !== DMD_STEPS;
}
