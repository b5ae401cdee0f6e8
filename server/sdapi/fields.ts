/** Requests to Stable Diffusion WebUI in the words of this server. */

import { z } from "zod";
import type { ModelInfo } from "../../engine/types.ts";
import { shorten } from "../../generation/texts.ts";
import { nearestSize, type Size } from "../../generation/size.ts";
import { readSampler, readSchedule, splitLoras } from "../../generation/recipe.ts";
import { badRequest } from "../contract/errors.ts";
import { MAX_OUTPUTS } from "../contract/generation.ts";
import {
  dictionary,
  flag,
  integer,
  longText,
  number,
  text,
} from "../contract/generation_fields.ts";
import { readScalars, validate } from "../contract/validate.ts";
import type { ServerSettings } from "../settings.ts";
import { readScripts } from "./control_units.ts";
import { hiresOf } from "./hires.ts";
import { knownName } from "./names.ts";
import { findStyles, type Style, styled } from "./styles.ts";

/** Deviation of the blur of a mask that WebUI has where a request says nothing. */
const MASK_BLUR = 4;

/** Most images of a request. */
export const MAX_IMAGES = 16;

const FIELDS = {
  prompt: longText(),
  styles: z.array(z.string()).nullish(),
  negative_prompt: longText(),
  seed: integer(),
  batch_size: integer(),
  n_iter: integer(),
  steps: integer(),
  cfg_scale: number(),
  width: integer(),
  height: integer(),
  sampler_name: text(),
  sampler_index: text(),
  scheduler: text(),
  enable_hr: flag(),
  hr_scale: number(),
  hr_upscaler: text(),
  hr_second_pass_steps: integer(),
  hr_resize_x: integer(),
  hr_resize_y: integer(),
  hr_prompt: longText(),
  hr_negative_prompt: longText(),
  hr_sampler_name: text(),
  hr_scheduler: text(),
  hr_checkpoint_name: text(),
  denoising_strength: number(),
  refiner_checkpoint: text(),
  refiner_switch_at: number(),
  image_cfg_scale: number(),
  send_images: flag(),
  override_settings: dictionary(),
  init_images: z.array(z.string()).max(MAX_IMAGES).nullish(),
  mask: longText(),
  inpainting_mask_invert: z.union(
    [z.number(), z.boolean()],
    "Input should be a valid number or boolean",
  ).nullish(),
  inpaint_full_res: z.union([z.number(), z.boolean()], "Input should be a valid number or boolean")
    .nullish(),
  inpaint_full_res_padding: integer(),
  mask_blur: number(),
  mask_blur_x: number(),
  mask_blur_y: number(),
  resize_mode: integer(),
  alwayson_scripts: z.unknown().optional(),
};

const schema = z.looseObject(FIELDS);

/** Fields that may go unnamed, at any value or at certain ones. */
type Quiet = Readonly<Record<string, "any" | readonly unknown[]>>;

/** Fields that change nothing here and of which nobody needs to be told, at any value or at those that ask for nothing. */
const QUIET: Quiet = {
  ...Object.fromEntries(
    [
      ...["save_images", "do_not_save_samples", "do_not_save_grid", "include_init_images"],
      ...["override_settings_restore_afterwards", "subseed", "seed_resize_from_h"],
      ...["seed_resize_from_w", "force_task_id", "mask_round", "resized_by"],
      ...["url", "auth"],
      ...["distilled_cfg_scale"],
    ].map((name) => [name, "any"] as const),
  ),
  s_noise: [1],
  s_tmax: ["Infinity"],
  eta: [1, 31337],
  initial_noise_multiplier: [1],
  // Clients send WebUI's own values, whatever is asked for.
  inpainting_fill: [1],
  clip_skip: [1],
  CLIP_stop_at_last_layers: [1],
};

/** Options of a request that have an effect, the second one where the model can skip layers. */
const OVERRIDES = { sd_model_checkpoint: true };
const CLIP_SKIP = "CLIP_stop_at_last_layers";
const MAX_CLIP_LAYERS = 12;

/** What this server's fields are called there. */
const THEIR_NAMES: Readonly<Record<string, string>> = {
  strength: "denoising_strength",
  num_inference_steps: "steps",
  refiner_start: "refiner_switch_at",
  image_guidance_scale: "image_cfg_scale",
  guidance_scale: "cfg_scale",
  sampler: "sampler_name",
  hires_scale: "hr_scale",
  hires_width: "hr_resize_x",
  hires_height: "hr_resize_y",
  hires_upscaler: "hr_upscaler",
  hires_strength: "denoising_strength",
  hires_steps: "hr_second_pass_steps",
  hires_prompt: "hr_prompt",
  hires_negative_prompt: "hr_negative_prompt",
  hires_sampler: "hr_sampler_name",
  hires_scheduler: "hr_scheduler",
  fit: "resize_mode",
  padding_mask_crop: "inpaint_full_res_padding",
  control: "alwayson_scripts",
  control_type: "alwayson_scripts",
  control_mode: "alwayson_scripts",
  control_scale: "alwayson_scripts",
  control_start: "alwayson_scripts",
  reference: "alwayson_scripts",
  reference_mask: "alwayson_scripts",
  ip_adapter_name: "alwayson_scripts",
  ip_adapter_scale: "alwayson_scripts",
  ip_adapter_start: "alwayson_scripts",
  ip_adapter_end: "alwayson_scripts",
  control_end: "alwayson_scripts",
};

/** Ways in which images meet the size of the result, by number; the last stretches latents there. */
const RESIZE_MODES = ["stretch", "cover", "contain", "stretch"] as const;

export interface WebuiRequest {
  /** Fields of `/v1/images/generations` and `/v1/images/edits`. */
  readonly fields: Record<string, unknown>;
  /** Images to start from, in base64 or as data addresses. */
  readonly images: readonly string[];
  /** What is redrawn of the first. */
  readonly mask: string | undefined;
  readonly isInverted: boolean;
  /** Whether the answer has the images. */
  readonly sendsImages: boolean;
  readonly ignored: readonly string[];
  /** The size where it is not the one that was asked for, as a header names it. */
  readonly rounded: string | undefined;
  /** The request without its images, which the answer repeats. */
  readonly told: Record<string, unknown>;
}

/** Reads the body of `txt2img` or `img2img`. @throws {ApiError} 422 for wrong types, 400 where images are missing */
export function readWebui(
  body: unknown,
  info: ModelInfo,
  startsFromImages: boolean,
  knownStyles: readonly Style[],
): WebuiRequest {
  const given = validate(schema, readScalars(body, schema));
  const styles = findStyles(given.styles, knownStyles);
  const inStyle = (text: string | null | undefined, part: "prompt" | "negative_prompt") =>
    styled(text ?? "", styles.map((style) => style[part]));
  const { prompt, loras } = splitLoras(inStyle(given.prompt, "prompt"));
  const negative = inStyle(given.negative_prompt, "negative_prompt");
  const images = startsFromImages ? given.init_images ?? [] : [];
  if (startsFromImages && images.length === 0) {
    throw badRequest("Init image not found: send it in init_images", "init_images");
  }
  const n = (given.batch_size ?? 1) * (given.n_iter ?? 1);
  if ((given.batch_size ?? 1) < 1 || n < 1 || n > MAX_OUTPUTS) {
    throw badRequest(
      `Cannot make ${n} images: batch_size times n_iter must be between 1 and ${MAX_OUTPUTS}`,
      "batch_size",
    );
  }
  const ignored: string[] = [];
  const { samplers, schedulers } = info.sampling;
  const samplerName = given.sampler_name || given.sampler_index;
  const sampler = knownName("sampler_name", samplerName, readSampler, samplers, ignored);
  const schedule = knownName("scheduler", given.scheduler, readSchedule, schedulers, ignored);
  const clipSkip = clipSkipOf(given.override_settings?.[CLIP_SKIP], info);
  const wantsRefiner = Boolean(given.refiner_checkpoint) && given.refiner_checkpoint !== "None";
  const hasRefiner = info.optionalSettings.includes("refinerStart");
  if (wantsRefiner && !hasRefiner) ignored.push("refiner_checkpoint");
  // There a request that names no refiner has none.
  const refinerStart = hasRefiner ? wantsRefiner ? given.refiner_switch_at : 1 : undefined;
  const { hr_prompt, hr_negative_prompt } = given;
  const second = {
    ...given,
    hr_prompt: hr_prompt && inStyle(hr_prompt, "prompt"),
    hr_negative_prompt: hr_negative_prompt && inStyle(hr_negative_prompt, "negative_prompt"),
  };
  const hires = hiresOf(second, info, { startsFromImages, ignored });
  const scripts = readScripts(given.alwayson_scripts, info, images);
  const fit = RESIZE_MODES[given.resize_mode ?? 0];
  if (startsFromImages && fit === undefined) {
    throw badRequest(
      `resize_mode must be between 0 and 3, got ${given.resize_mode}`,
      "resize_mode",
    );
  }
  ignored.push(...idleImages(given, startsFromImages));
  const size: Partial<Size> = sizeOf(given, info);
  const rounded = (["width", "height"] as const)
    .filter((side) => given[side] && size[side] !== given[side])
    .map((side) => `${side}=${size[side]}`);
  const padding = startsFromImages && given.mask && (given.inpaint_full_res ?? true)
    ? given.inpaint_full_res_padding ?? 0
    : undefined;
  const [blur, blurDown] = [given.mask_blur_x, given.mask_blur_y]
    .map((own) => given.mask_blur ?? own ?? MASK_BLUR);
  if (blur !== blurDown) ignored.push("mask_blur_y");
  const fields = present({
    prompt,
    negative_prompt: negative || undefined,
    prompt_syntax: info.optionalSettings.includes("promptSyntax") ? "a1111" : undefined,
    clip_skip: clipSkip,
    n,
    seed: given.seed,
    num_inference_steps: given.steps,
    guidance_scale: given.cfg_scale,
    image_guidance_scale: info.optionalSettings.includes("imageGuidanceScale")
      ? given.image_cfg_scale
      : undefined,
    refiner_start: refinerStart,
    ...size,
    sampler: sampler?.value,
    scheduler: schedule?.value ?? sampler?.scheduler,
    strength: startsFromImages ? given.denoising_strength : undefined,
    ...hires,
    padding_mask_crop: padding,
    mask_blur: startsFromImages && given.mask ? blur : undefined,
    ...scripts.fields,
    // The images and the control picture meet the size in one way.
    ...(startsFromImages && padding === undefined && { fit }),
    loras: loras.length > 0 ? loras : undefined,
    output_format: "png",
    response_format: "b64_json",
  });
  const { init_images: _, mask: __, alwayson_scripts: ___, ...told } = given;
  return {
    fields,
    images,
    told,
    mask: startsFromImages && given.mask ? given.mask : undefined,
    isInverted: Boolean(given.inpainting_mask_invert),
    sendsImages: given.send_images !== false,
    rounded: rounded.join(", ") || undefined,
    ignored: [
      ...ignored,
      ...unknownFields(given, FIELDS, QUIET),
      ...unknownFields(
        given.override_settings ?? {},
        clipSkip === undefined ? OVERRIDES : { ...OVERRIDES, [CLIP_SKIP]: true },
        QUIET,
      ).map((name) => `override_settings.${name}`),
      ...scripts.hasOthers ? ["alwayson_scripts"] : [],
    ],
  };
}

/** Layers that are skipped: 1 is none there, and of Stable Diffusion XL, whose own layer is the last but one, 2 too. */
function clipSkipOf(layer: unknown, { optionalSettings, className }: ModelInfo) {
  if (!optionalSettings.includes("clipSkip") || typeof layer !== "number") return undefined;
  if (!Number.isInteger(layer) || layer < 0 || layer > MAX_CLIP_LAYERS) {
    throw badRequest(
      `${CLIP_SKIP} must be an integer from 1 to ${MAX_CLIP_LAYERS}, got ${layer}`,
      "override_settings",
    );
  }
  return Math.max(0, layer - (/XL/.test(className) ? 2 : 1));
}

/** Fields of images that a request has no use for. */
function idleImages(given: z.output<typeof schema>, startsFromImages: boolean): string[] {
  const hasMask = startsFromImages && Boolean(given.mask);
  return [
    ...!startsFromImages && (given.init_images ?? []).length > 0 ? ["init_images"] : [],
    ...!startsFromImages && given.mask ? ["mask"] : [],
    ...!startsFromImages && !given.enable_hr &&
        ![undefined, null, 0, 0.7, 0.75].includes(given.denoising_strength)
      ? ["denoising_strength"]
      : [],
    ...given.inpainting_mask_invert && !hasMask ? ["inpainting_mask_invert"] : [],
  ];
}

/** What a field of this server is called there. */
export function theirName(name: string): string {
  return THEIR_NAMES[name] ?? name;
}

/** @throws {ApiError} 400 that names the first field without effect, where the server is strict */
export function refuseIgnored(
  [name]: readonly string[],
  { strictFields }: Pick<ServerSettings, "strictFields">,
): void {
  if (!strictFields || name === undefined) return;
  const shown = shorten(name);
  throw badRequest(`Cannot use field '${shown}': it has no effect here`, name, "unused_field");
}

/** A side that is omitted is the model's own; others come to the nearest that it makes. */
function sizeOf(
  { width, height }: { width?: number | null | undefined; height?: number | null | undefined },
  info: ModelInfo,
) {
  if (!width && !height) return {};
  const { defaults } = info;
  const asked = { width: width || defaults.width, height: height || defaults.height };
  return asked.width > 0 && asked.height > 0 ? nearestSize(asked, info) : asked;
}

/** Fields that nobody here knows and that ask for something, but for `quietOnes`. */
export function unknownFields(
  given: Readonly<Record<string, unknown>>,
  known: Readonly<Record<string, unknown>>,
  quietOnes: Quiet,
): string[] {
  return Object.entries(given).filter(([name, value]) => {
    if (Object.hasOwn(known, name)) return false;
    const quiet = Object.hasOwn(quietOnes, name) ? quietOnes[name] : undefined;
    if (quiet === "any" || quiet?.includes(value)) return false;
    if (value === null || value === undefined) return false;
    if (typeof value === "object") return Object.keys(value).length > 0;
    return value !== false && value !== 0 && value !== -1 && value !== "" && value !== "None";
  }).map(([name]) => name);
}

function present(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  );
}
