/** How an image or a video was made: all that is needed to make it again. */

import { basename } from "../platform/mod.ts";
import type {
  Frames,
  NoiseScheduleName,
  SamplerName,
  SamplingSettings,
  Size,
} from "../engine/types.ts";
import { DEFAULT_UPSCALING } from "../engine/result_size.ts";
import type { HiresUpscaler } from "../models/pipeline/settings.ts";
import type { Prepared } from "./prepare.ts";
import { settingsOf } from "./settings.ts";
import { exifOf, type ImageText, type OutputFormat } from "../media/encode.ts";
import { MAX_EXIF_BYTES } from "../media/jpeg.ts";
import { MAX_PROMPT_LENGTH, snakeCase } from "./field_values.ts";
import { promptOf } from "./wildcards.ts";
import { shorten } from "./texts.ts";
import { version } from "./version.ts";

/** How an image or a video was made. */
export interface Recipe extends SamplingSettings {
  /** The prompt as the model read it. */
  prompt: string;
  /** The model's public name. */
  model: string;
  /** The seed of this result. */
  seed: number;
  /** Width in pixels. */
  width: number;
  /** Height in pixels. */
  height: number;
  /** The size at which the model drew, where it was smaller and the result was enlarged. */
  drawnAt?: Size;
  /** The network that enlarged the result, where upscaling was asked for. */
  upscaler?: string;
  /** Which layer the image is, from 0 at the back. */
  layer?: number;
  /** Whether it was made from images, which the recipe does not hold. */
  isEdited?: boolean;
  /** Whether a mask kept a part of the image that it was made from. */
  isMasked?: boolean;
  /** Whether a control picture steered it. */
  isControlled?: boolean;
  /** Whether reference images said what is seen in it. */
  hasReferences?: boolean;
  /** LoRAs in the order in which they were applied; none by default. */
  loras?: readonly RecipeLora[];
}

/** A LoRA that an image was made with. */
export interface RecipeLora {
  /** Path as it was given: a name, a file, a folder or a hub id. */
  path: string;
  /** Default 1. */
  strength?: number;
  /** The component that it changed; all by default. */
  target?: string;
  /** What replaced the file's own. */
  alpha?: number;
  /** How it was applied: the ways round differently; default `auto`. */
  mode?: "auto" | "merge" | "dynamic";
}

export function recipeOf(
  request: Prepared<unknown> & { readonly loras?: readonly RecipeLora[] },
  { model, seed, width, height, drawnAt, upscaler }:
    & Pick<Recipe, "model" | "seed">
    & Pick<Frames, "width" | "height" | "drawnAt" | "upscaler">,
): Recipe {
  const { loras, images, mask, control, references } = request;
  return {
    ...settingsOf(request),
    prompt: promptOf(request, seed),
    model,
    seed,
    width,
    height,
    ...(loras && { loras }),
    ...(drawnAt && { drawnAt }),
    ...(upscaler !== undefined && { upscaler }),
    ...(images.length > 0 && { isEdited: true }),
    ...(mask !== undefined && { isMasked: true }),
    ...(control !== undefined && { isControlled: true }),
    ...(references && { hasReferences: true }),
  };
}

/** A recipe in WebUI's words and as JSON, by keyword; long prompts are shortened in JPEG, which has room for 64 KiB. */
export function recipeText(recipe: Recipe, format: OutputFormat): ImageText {
  for (let most = MAX_PROMPT_LENGTH;; most = most >> 1) {
    const { prompt, negativePrompt } = recipe;
    const told = {
      ...recipe,
      prompt: writable(prompt, most),
      ...(negativePrompt && { negativePrompt: writable(negativePrompt, most) }),
    };
    const text = {
      Software: `denoise ${version}`,
      parameters: writable(webuiText(told)),
      denoise: JSON.stringify(toJson(told)),
    };
    if (format !== "jpeg" || most === 0 || exifOf(text).length <= MAX_EXIF_BYTES) return text;
  }
}

function toJson(recipe: Recipe): Record<string, unknown> {
  const { prompt, model, seed, width, height, drawnAt, upscaler, layer, loras = [] } = recipe;
  const settings = Object.entries(settingsOf(recipe)).filter(([, value]) => value !== "");
  return {
    prompt,
    model,
    seed,
    size: `${width}x${height}`,
    ...(drawnAt && { drawn_at: `${drawnAt.width}x${drawnAt.height}` }),
    ...(upscaler !== undefined && { upscaler }),
    ...Object.fromEntries(settings.map(([name, value]) => [snakeCase(name), value])),
    ...(layer === undefined ? {} : { layer }),
    ...(recipe.isEdited && { edited: true }),
    ...(recipe.isMasked && { masked: true }),
    ...(recipe.isControlled && { controlled: true }),
    ...(recipe.hasReferences && { referenced: true }),
    ...(loras.length > 0 && { loras: loras.map(loraFields) }),
  };
}

/** A LoRA as requests name it. */
export function loraFields(
  { path, strength = 1, target = "all", alpha, mode = "auto" }: RecipeLora,
): Record<string, unknown> {
  return {
    path,
    strength,
    target,
    ...(alpha === undefined ? {} : { alpha }),
    ...(mode === "auto" ? {} : { merge_mode: mode }),
  };
}

/** No metadata format holds NUL, and half a surrogate pair is not text. */
function writable(value: string, most = Infinity): string {
  return shorten(value.toWellFormed().replaceAll("\0", "\ufffd"), most);
}

type Told = Pick<
  Recipe,
  | "prompt"
  | "negativePrompt"
  | "numInferenceSteps"
  | "guidanceScale"
  | "sampler"
  | "scheduler"
  | "sigmas"
  | "strength"
  | "drawnAt"
  | "upscaler"
  | "enableUpscaling"
  | "upscalingScale"
  | "paddingMaskCrop"
  | "maskBlur"
  | Extract<keyof SamplingSettings, `hires${string}`>
  | "seed"
  | "width"
  | "height"
  | "model"
  | "loras"
>;

/** The size that a request says: before the second pass of a hires fix, before upscaling, and before a part was taken. */
export function askedSize(
  { width, height, drawnAt, ...recipe }:
    & Size
    & Pick<Recipe, "drawnAt" | "enableUpscaling" | "upscalingScale" | "paddingMaskCrop">,
  isHires: boolean,
): Size {
  const { enableUpscaling, upscalingScale = DEFAULT_UPSCALING, paddingMaskCrop } = recipe;
  if (drawnAt && (isHires || paddingMaskCrop !== undefined)) return drawnAt;
  const scale = enableUpscaling ? upscalingScale : 1;
  const size = { width: Math.round(width / scale), height: Math.round(height / scale) };
  // A model draws smaller what is enlarged then.
  const isPart = drawnAt && drawnAt.width >= size.width && drawnAt.height >= size.height;
  return isPart ? drawnAt : size;
}

/** How an image was made, as WebUI writes it into `parameters` of PNG files: prompt, negative prompt, a line of settings. */
export function webuiText(recipe: Told): string {
  const loras = (recipe.loras ?? []).map(({ path, strength = 1 }) =>
    `<lora:${basename(path).replace(/\.safetensors$/, "")}:${strength}>`
  );
  const resized = recipe.hiresWidth !== undefined || recipe.hiresHeight !== undefined;
  const isHires = resized || recipe.hiresScale !== undefined;
  const { width, height } = askedSize(recipe, isHires);
  const settings: Record<string, string | number | false | undefined> = {
    Steps: recipe.numInferenceSteps,
    Sampler: nameOf(WEBUI_SAMPLERS, recipe.sampler),
    "Schedule type": nameOf(WEBUI_SCHEDULES, recipe.scheduler) ??
      (recipe.sigmas || recipe.sampler === "dmd" ? undefined : "Automatic"),
    "CFG scale": recipe.guidanceScale,
    Seed: recipe.seed,
    Size: `${width}x${height}`,
    Model: recipe.model,
    "Denoising strength": recipe.strength ?? recipe.hiresStrength,
    "Mask blur": recipe.maskBlur,
    "Inpaint area": recipe.paddingMaskCrop !== undefined && "Only masked",
    "Masked area padding": recipe.paddingMaskCrop,
    "Postprocess upscale by": recipe.enableUpscaling &&
      (recipe.upscalingScale ?? DEFAULT_UPSCALING),
    "Postprocess upscaler": recipe.upscaler,
    "Hires upscale": recipe.hiresScale,
    "Hires resize": resized && `${recipe.hiresWidth ?? 0}x${recipe.hiresHeight ?? 0}`,
    "Hires upscaler": nameOf(WEBUI_HIRES_UPSCALERS, recipe.hiresUpscaler),
    "Hires steps": recipe.hiresSteps,
    "Hires sampler": nameOf(WEBUI_SAMPLERS, recipe.hiresSampler),
    "Hires schedule type": nameOf(WEBUI_SCHEDULES, recipe.hiresScheduler),
    "Hires prompt": recipe.hiresPrompt,
    "Hires negative prompt": recipe.hiresNegativePrompt,
    Version: `denoise ${version}`,
  };
  const line = Object.entries(settings).filter(([, value]) =>
    value !== undefined && value !== false
  )
    .map(([name, value]) => `${name}: ${quoted(String(value))}`);
  return [
    [recipe.prompt, ...loras].join(" "),
    ...recipe.negativePrompt ? [`Negative prompt: ${recipe.negativePrompt}`] : [],
    line.join(", "),
  ].join("\n");
}

/** Texts that would end early are written as JSON. */
function quoted(text: string): string {
  return /[,:\n]/.test(text) ? JSON.stringify(text) : text;
}

export const WEBUI_SAMPLERS: ReadonlyMap<string, SamplerName> = new Map([
  ["Euler", "euler"],
  ["Euler a", "euler_ancestral"],
  ["DPM++ 2M", "dpmpp_2m"],
  ["DPM++ SDE", "dpmpp_sde"],
  ["DPM++ 2M SDE", "dpmpp_2m_sde"],
  ["DPM++ 2S", "dpmpp_2s"],
  ["DPM++ 2S a", "dpmpp_2s_ancestral"],
  ["DPM++ 3M SDE", "dpmpp_3m_sde"],
  ["LMS", "lms"],
  ["Heun", "heun"],
  ["DPM2", "dpm_2"],
  ["DPM2 a", "dpm_2_ancestral"],
  ["DDIM", "ddim"],
  ["DDPM", "ddpm"],
  ["PLMS", "pndm"],
  ["UniPC", "uni_pc"],
  ["DEIS", "deis"],
  ["LCM", "lcm"],
  ["TCD", "tcd"],
  ["ER SDE", "er_sde"],
  ["Res Multistep", "res_multistep"],
]);

/** Schedules by its labels for them. */
export const WEBUI_SCHEDULES: ReadonlyMap<string, NoiseScheduleName> = new Map([
  ["Normal", "normal"],
  ["Uniform", "normal"],
  ["Karras", "karras"],
  ["Exponential", "exponential"],
  ["SGM Uniform", "sgm_uniform"],
  ["KL Optimal", "kl_optimal"],
  ["Align Your Steps", "align_your_steps"],
  ["Simple", "simple"],
  ["DDIM", "ddim_uniform"],
  ["Beta", "beta"],
]);

/** What enlarges the image of a hires fix, by its names for it. */
export const WEBUI_HIRES_UPSCALERS: ReadonlyMap<string, HiresUpscaler> = new Map([
  ["Latent", "latent"],
  ["Latent (antialiased)", "latent_antialiased"],
  ["Latent (bicubic)", "latent_bicubic"],
  ["Latent (bicubic antialiased)", "latent_bicubic_antialiased"],
  ["Latent (nearest)", "latent_nearest"],
  ["Latent (nearest-exact)", "latent_nearest_exact"],
  ["Lanczos", "lanczos"],
  ["None", "lanczos"],
  ["Default", "model"],
]);

/** Stands for what the model has itself. */
export const OWN_NAMES = { sampler: "Default", schedule: "Automatic" } as const;

/** What a name means; nothing where it is not known here. */
interface Meaning<T> {
  /** Omitted if it is the model's own. */
  readonly value?: T;
}

/** A sampler, and a schedule where its name has one, as WebUI's had once. */
type SamplerMeaning = Meaning<SamplerName> & { readonly scheduler?: NoiseScheduleName };

/** What a sampler's name means, such as `Euler a`, `euler_ancestral` or `DPM++ 2M Karras`; nothing for an unknown one. */
export function readSampler(text: string): SamplerMeaning | undefined {
  if (isSame(text, OWN_NAMES.sampler) || isSame(text, OWN_NAMES.schedule)) return {};
  // ComfyUI's names with _gpu only say where the noise is drawn.
  const value = find(WEBUI_SAMPLERS, text.replace(/_gpu$/, ""));
  if (value) return { value };
  const [, before, last] = /^(.*\S)\s+(\S+)$/.exec(text.trim()) ?? [];
  const sampler = before && find(WEBUI_SAMPLERS, before);
  const scheduler = last && find(WEBUI_SCHEDULES, last);
  return sampler && scheduler ? { value: sampler, scheduler } : undefined;
}

/** What a schedule's name means, such as `Karras` or `sgm_uniform`; nothing for an unknown one. */
export function readSchedule(text: string): Meaning<NoiseScheduleName> | undefined {
  if (isSame(text, OWN_NAMES.schedule)) return {};
  const value = find(WEBUI_SCHEDULES, text);
  return value && { value };
}

/** What WebUI calls a sampler or a schedule; our name where it has none. */
export function nameOf<T>(names: ReadonlyMap<string, T>, value: T | undefined): string | undefined {
  if (value === undefined) return undefined;
  for (const [name, own] of names) if (own === value) return name;
  return String(value);
}

function find<T extends string>(names: ReadonlyMap<string, T>, text: string): T | undefined {
  for (const [name, own] of names) if (isSame(text, name) || isSame(text, own)) return own;
  return undefined;
}

/** Names are told apart by letters, digits and `+`. */
function isSame(one: string, other: string): boolean {
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z0-9+]/g, "");
  return plain(one) === plain(other);
}

export interface WebuiText {
  /** All before the negative prompt. */
  readonly prompt: string;
  /** `""` where there is none. */
  readonly negativePrompt: string;
  /** The settings of the last line by WebUI's names, such as `CFG scale`; the last one of a name wins. */
  readonly settings: Readonly<Record<string, string>>;
}

const NEGATIVE = "Negative prompt:";

/** Longest line that is taken for settings, in characters; WebUI's have some hundreds. */
const MAX_LINE = 2 ** 16;

export function readWebuiText(text: string): WebuiText {
  const whole = text.trim();
  const lastStart = whole.lastIndexOf("\n") + 1;
  const hasSettings = whole.startsWith("Steps: ", lastStart) &&
    whole.length - lastStart <= MAX_LINE;
  const prompts = hasSettings ? whole.slice(0, Math.max(0, lastStart - 1)) : whole;
  const at = `\n${prompts}`.indexOf(`\n${NEGATIVE}`);
  return {
    prompt: at < 0 ? prompts : prompts.slice(0, Math.max(0, at - 1)),
    negativePrompt: at < 0 ? "" : prompts.slice(at + NEGATIVE.length).trimStart(),
    settings: hasSettings ? Object.fromEntries(settingsIn(whole.slice(lastStart))) : {},
  };
}

/** Takes `<lora:name:0.8>`, which asks for a LoRA and is no part of what to make, out of a prompt. */
export function splitLoras(
  prompt: string,
): { prompt: string; loras: { name: string; strength: number }[] } {
  const loras: { name: string; strength: number }[] = [];
  const rest = prompt.replace(
    /<lora:([^:<>]+)((?::[^:<>]*)*)>/gi,
    (tag, name: string, rest: string) => {
      const weight = strengthOf(rest.split(":").slice(1).map((part) => part.trim()));
      if (!Number.isFinite(weight)) return tag;
      loras.push({ name: name.trim(), strength: weight });
      return "";
    },
  );
  return { prompt: loras.length > 0 ? rest.replace(/ {2,}/g, " ").trim() : prompt, loras };
}

/** The strength of a denoiser in `text strength:denoiser strength`, of which each may have a name and the second be absent. */
function strengthOf(parts: readonly string[]): number {
  const [, named] = parts.map((part) => /^unet=(.*)$/.exec(part)).find((match) => match) ?? [];
  const plain = parts.filter((part) => !/^[a-z_]+=/i.test(part));
  const text = named ?? plain[1] ?? plain[0] ?? "1";
  return text.trim() === "" ? NaN : Number(text);
}

/** Names and values of `Steps: 20, Model: "a, b"`. What is not of that form is passed over. */
function* settingsIn(line: string): Generator<[name: string, value: string]> {
  for (let at = 0; at < line.length;) {
    const colon = line.indexOf(":", at);
    if (colon < 0) return;
    const before = line.slice(at, colon);
    const name = before.slice(before.lastIndexOf(",") + 1).trim();
    let start = colon + 1;
    while (line[start] === " ") start++;
    const comma = line.indexOf(",", line[start] === '"' ? endOfQuoted(line, start) : start);
    const end = comma < 0 ? line.length : comma;
    if (/^\w[\w /-]*$/.test(name)) yield [name, unquoted(line.slice(start, end).trim())];
    at = end + 1;
  }
}

/** Where a quoted text ends, which begins at `start`; the end of the line where it has no end. */
function endOfQuoted(line: string, start: number): number {
  for (let at = start + 1; at < line.length; at++) {
    if (line[at] === '"') return at;
    if (line[at] === "\\") at++;
  }
  return line.length;
}

function unquoted(text: string): string {
  if (!text.startsWith('"')) return text;
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}
