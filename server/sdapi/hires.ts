/** The hires fix of Stable Diffusion WebUI in the words of this server. */

import { takesHires } from "../../engine/hires.ts";
import type { ModelInfo } from "../../engine/types.ts";
import { nearestSize } from "../../generation/size.ts";
import {
  readSampler,
  readSchedule,
  splitLoras,
  WEBUI_HIRES_UPSCALERS,
} from "../../generation/recipe.ts";
import { shorten } from "../../generation/texts.ts";
import { badRequest } from "../contract/errors.ts";
import { knownName } from "./names.ts";

/** What stands for the sampler and the schedule of the first pass. */
const SAME = /^use same /i;

interface HiresFields {
  readonly enable_hr?: boolean | null | undefined;
  readonly hr_scale?: number | null | undefined;
  readonly hr_upscaler?: string | null | undefined;
  readonly hr_second_pass_steps?: number | null | undefined;
  readonly hr_resize_x?: number | null | undefined;
  readonly hr_resize_y?: number | null | undefined;
  readonly hr_prompt?: string | null | undefined;
  readonly hr_negative_prompt?: string | null | undefined;
  readonly hr_sampler_name?: string | null | undefined;
  readonly hr_scheduler?: string | null | undefined;
  readonly hr_checkpoint_name?: string | null | undefined;
  readonly denoising_strength?: number | null | undefined;
}

/** The fields of a hires fix; those that the model has no use for are noted. */
export function hiresOf(
  given: HiresFields,
  info: ModelInfo,
  { startsFromImages, ignored }: { startsFromImages: boolean; ignored: string[] },
): Record<string, unknown> {
  if (!given.enable_hr) return {};
  if (startsFromImages || !takesHires(info)) {
    ignored.push("enable_hr");
    return {};
  }
  const checkpoint = given.hr_checkpoint_name;
  if (checkpoint && !SAME.test(checkpoint)) ignored.push("hr_checkpoint_name");
  const { samplers, schedulers } = info.sampling;
  const other = (name: string | null | undefined) => name && !SAME.test(name) ? name : undefined;
  const sampler = knownName(
    "hr_sampler_name",
    other(given.hr_sampler_name),
    readSampler,
    samplers,
    ignored,
  );
  const schedule = knownName(
    "hr_scheduler",
    other(given.hr_scheduler),
    readSchedule,
    schedulers,
    ignored,
  );
  const prompt = given.hr_prompt && splitLoras(given.hr_prompt).prompt;
  return {
    ...sizeOf(given, info),
    hires_upscaler: upscalerOf(given.hr_upscaler || "Latent", info),
    hires_strength: given.denoising_strength,
    hires_steps: given.hr_second_pass_steps || undefined,
    hires_prompt: prompt || undefined,
    hires_negative_prompt: given.hr_negative_prompt || undefined,
    hires_sampler: sampler?.value,
    hires_scheduler: schedule?.value ?? sampler?.scheduler,
  };
}

/** Sides that are omitted follow from the image's shape. */
function sizeOf({ hr_resize_x: x, hr_resize_y: y, hr_scale: scale }: HiresFields, info: ModelInfo) {
  if (!x && !y) return { hires_scale: scale ?? 2 };
  const { width, height } = nearestSize({ width: x || y!, height: y || x! }, info);
  return { ...(x && { hires_width: width }), ...(y && { hires_height: height }) };
}

/** @throws {ApiError} 400 for a name that is not known */
function upscalerOf(name: string, { startsFromLatents, optionalParts }: ModelInfo) {
  const known = WEBUI_HIRES_UPSCALERS.get(name);
  // Models that start from pixels have the nearest that they can do.
  if (known?.startsWith("latent") && !startsFromLatents) return "lanczos";
  if (known && (known !== "model" || optionalParts.includes("upscaler"))) return known;
  throw badRequest(
    `Cannot use hr_upscaler '${shorten(name)}': it is not in upscalers or latent-upscale-modes`,
    "hr_upscaler",
  );
}

/** Upscalers of latents, for `GET /sdapi/v1/latent-upscale-modes`. */
export function latentModesOf({ startsFromLatents }: ModelInfo): { readonly name: string }[] {
  if (!startsFromLatents) return [];
  return [...WEBUI_HIRES_UPSCALERS.keys()].filter((name) => name.startsWith("Latent"))
    .map((name) => ({ name }));
}
