/** The rows of a hires fix. */

import { takesHires } from "../engine/hires.ts";
import {
  HIRES_UPSCALERS,
  type HiresSettings,
  type HiresUpscaler,
} from "../models/pipeline/settings.ts";
import type { SamplerName } from "../engine/types.ts";
import { NOISE_SCHEDULES, OWN_SIGMAS, SAMPLERS } from "../models/schedulers/names.ts";
import {
  checkChoice,
  checkPrompt,
  checkSteps,
  integerUpTo,
  numberWithin,
  type SettingField,
} from "./field_values.ts";

type Idle = NonNullable<SettingField<unknown>["idle"]>;

/** Largest scale of a hires fix. */
const MAX_SCALE = 4;

const unlessTaken: Idle = (info, task) => {
  if (task !== "T2I") return "only an image from text alone has a hires fix";
  return takesHires(info) ? undefined : "this model cannot denoise its image again";
};

/** A setting of the second pass. */
const unlessAsked: Idle = (info, task, given) => {
  const { hiresScale, hiresWidth, hiresHeight } = given;
  const isAsked = hiresScale || hiresWidth || hiresHeight;
  return unlessTaken(info, task, given) ??
    (isAsked ? undefined : "hires_scale, hires_width and hires_height are absent");
};

const hasAnySteps = (sampler: SamplerName) => sampler !== "dmd";

const side = {
  ...integerUpTo(() => Infinity),
  placeholder: "pixels",
  idle: unlessTaken,
};

/** Settings of a hires fix. */
export const HIRES_FIELDS: {
  readonly [Name in keyof Required<HiresSettings>]: SettingField<NonNullable<HiresSettings[Name]>>;
} = {
  hiresScale: {
    text:
      "Hires fix: make the image, enlarge its sides this many times, up to 4, and denoise it again",
    ...numberWithin(1, MAX_SCALE),
    placeholder: "times",
    neutral: 1,
    idle: (info, task, given) =>
      unlessTaken(info, task, given) ??
        (given.hiresWidth || given.hiresHeight
          ? "hires_width or hires_height says the size"
          : undefined),
  },
  hiresWidth: {
    text: "Width after the hires fix, instead of `hires_scale`; the other side follows by default",
    ...side,
  },
  hiresHeight: { text: "Height after the hires fix, instead of `hires_scale`", ...side },
  hiresUpscaler: {
    text:
      "What enlarges the image before the second pass: its latents, pixels by `lanczos`, or the `model`'s upscaler (default: `latent`, or `lanczos` with models that start from pixels)",
    kind: "text",
    choices: HIRES_UPSCALERS,
    placeholder: "name",
    check: (value: HiresUpscaler, name, { optionalParts, startsFromLatents }) => {
      checkChoice(value, name, HIRES_UPSCALERS);
      if (value === "model" && !optionalParts.includes("upscaler")) {
        throw new RangeError(
          `${name} is model, and the model has no upscaler; fetch one with denoise pull realesrgan_x4plus, name a file with --upscaler at the start, or choose another`,
        );
      }
      if (!value.startsWith("latent") || startsFromLatents) return;
      throw new RangeError(
        `${name} is ${value}, and this model starts from pixels; choose lanczos, or omit ${name}`,
      );
    },
    idle: unlessAsked,
  },
  hiresStrength: {
    text: "Denoising strength of the second pass, above 0 to 1 (default: 0.7)",
    kind: "number",
    placeholder: "share",
    bounds: () => [0, 1],
    check: (value, name, { maxSteps }, { hiresSteps, numInferenceSteps }) => {
      if (!(value > 0 && value <= 1)) {
        throw new RangeError(`${name} must be above 0 and at most 1, got ${value}`);
      }
      const steps = hiresSteps ?? numInferenceSteps ?? 0;
      if (steps / value <= maxSteps) return;
      throw new RangeError(
        `${name} must be at least ${steps / maxSteps} with ${steps} steps, got ${value}`,
      );
    },
    idle: unlessAsked,
  },
  hiresSteps: {
    text: "Number of denoising steps of the second pass (default: as many as of the first)",
    kind: "integer",
    placeholder: "steps",
    bounds: ({ maxSteps }) => [1, maxSteps],
    check: (value, name, { maxSteps }) => checkSteps(value, maxSteps, name),
    idle: unlessAsked,
  },
  hiresPrompt: {
    text: "Prompt of the second pass (default: the prompt)",
    kind: "text",
    placeholder: "text",
    check: (value, name) => checkPrompt(name, value),
    idle: unlessAsked,
  },
  hiresNegativePrompt: {
    text: "Negative prompt of the second pass (default: the negative prompt)",
    kind: "text",
    placeholder: "text",
    check: (value, name) => checkPrompt(name, value, true),
    idle: unlessAsked,
  },
  hiresSampler: {
    text: "Sampler of the second pass (default: that of the first)",
    kind: "text",
    choices: SAMPLERS.filter(hasAnySteps),
    placeholder: "name",
    check: (value, name, { sampling }) =>
      checkChoice(value, name, sampling.samplers.filter(hasAnySteps)),
    idle: unlessAsked,
  },
  hiresScheduler: {
    text: "Scheduler of the second pass (default: that of the first)",
    kind: "text",
    choices: NOISE_SCHEDULES,
    placeholder: "name",
    check: (value, name, { sampling }, { hiresSampler, sampler }) => {
      checkChoice(value, name, sampling.schedulers);
      const own = hiresSampler ?? sampler;
      if (!own || !OWN_SIGMAS.has(own)) return;
      throw new RangeError(`${name} spaces the sigmas, and ${own} has its own; omit ${name}`);
    },
    idle: unlessAsked,
  },
};
