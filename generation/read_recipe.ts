/**
 * How an image was made, from the texts of its file: those of denoise, of Stable Diffusion WebUI (AUTOMATIC1111, Forge
 * and others that write as it does) and of ComfyUI. They come from files of others: every step takes no longer than a text
 * is long, and media/ bounds them.
 */

import type { SamplingSettings } from "../engine/types.ts";
import { isCrowded, readComfyGraph } from "./comfy_graph.ts";
import { httpNames, MAX_PROMPT_LENGTH, type SettingField } from "./field_values.ts";
import { SETTING_FIELDS, SETTING_NAMES } from "./fields.ts";
import { LORA_TARGETS, type LoraTargetName, MERGE_MODES, type MergeMode } from "./lora_words.ts";
import {
  askedSize,
  loraFields,
  readSampler,
  readSchedule,
  readWebuiText,
  type RecipeLora,
  splitLoras,
  WEBUI_HIRES_UPSCALERS,
} from "./recipe.ts";
import { NO_LIMITS } from "./settings.ts";
import { shorten } from "./texts.ts";
import { parseSize, type Size } from "./size.ts";

/** A recipe as a file has it; what the file does not say, or says in a form that nobody can use, is absent. */
export interface FileRecipe extends Partial<Size> {
  /** Whose words it is in. */
  readonly source: "denoise" | "AUTOMATIC1111" | "ComfyUI";
  readonly prompt?: string;
  /** The model's name, as the file has it. */
  readonly model?: string;
  readonly seed?: number;
  readonly loras: readonly RecipeLora[];
  readonly settings: Partial<SamplingSettings>;
  /** What the file says and requests cannot, a few in words; values of others are cut short. */
  readonly unused: readonly string[];
}

/** Longest reason that is told, in characters. */
const MAX_REASON = 200;

/** Most things that are named as not used; the rest are counted. */
const MAX_UNUSED = 20;

/** Most LoRAs that are believed. */
const MAX_LORAS = 64;

const WEBUI_NAMES: Readonly<Record<string, string>> = {
  "Steps": "num_inference_steps",
  "CFG scale": "guidance_scale",
  "Distilled CFG Scale": "guidance_scale",
  "Seed": "seed",
  "Size": "size",
  "Model": "model",
  "Denoising strength": "strength",
  "Mask blur": "mask_blur",
  "Masked area padding": "padding_mask_crop",
  "Hires upscale": "hires_scale",
  "Hires steps": "hires_steps",
  "Hires prompt": "hires_prompt",
  "Hires negative prompt": "hires_negative_prompt",
};

/** Others, which change nothing of an image. */
const QUIET =
  /hash|^Version$|^User$|^(Hires )?(Sampler|Schedule type)$|^Hires (resize|upscaler)$|^Inpaint area$/i;

/** Names of a recipe of ours that need no request: they follow from others, or say the same. */
const FOLLOWING = ["drawn_at", "upscaler", "layer", "parameters"];

/** Names of a recipe of ours that say what else the image was made of. */
const INPUTS: readonly (readonly [name: string, words: string])[] = [
  ["edited", "the images that it was made from, which --image may name"],
  ["masked", "the mask that it was made with, which --mask may name"],
  ["controlled", "the control picture that it was made with, which --control may name"],
  ["referenced", "the reference images that it was made with, which --reference may name"],
];

/** A recipe of a file's texts by keyword; nothing where they do not say how it was made. */
export function readRecipe(text: Readonly<Record<string, string>>): FileRecipe | undefined {
  return ownRecipe(text) ?? webuiRecipe(text["parameters"]) ?? comfyRecipe(text["prompt"]);
}

/** A recipe with the names that requests have. */
export function recipeFields(
  { prompt, model, seed, width, height, loras, settings }: FileRecipe,
): Record<string, unknown> {
  return {
    ...(prompt === undefined ? {} : { prompt }),
    ...(model === undefined ? {} : { model }),
    ...(seed === undefined ? {} : { seed }),
    ...(width && height ? { size: `${width}x${height}` } : {}),
    ...Object.fromEntries(
      SETTING_NAMES.flatMap((name) =>
        settings[name] === undefined
          ? []
          : [[httpNames(name, SETTING_FIELDS[name] as SettingField<unknown>)[0], settings[name]]]
      ),
    ),
    ...(loras.length > 0 ? { loras: loras.map(loraFields) } : {}),
  };
}

/** Ours, under one keyword; denoise 0.1 had one for each field. */
function ownRecipe(text: Readonly<Record<string, string>>): FileRecipe | undefined {
  const { denoise, Software = "", ...older } = text;
  const fields = denoise !== undefined
    ? parseObject(denoise)
    : Software.startsWith("denoise ") && older["seed"] !== undefined
    ? { ...older, ...(older["loras"] && { loras: parse(older["loras"]) }) }
    : undefined;
  if (!fields) return undefined;
  const unused = INPUTS.filter(([name]) => fields[name] !== undefined).map(([, words]) => words);
  const isHires = ["scale", "width", "height"].some((name) => fields[`hires_${name}`]);
  return checkedRecipe("denoise", { ...fields, size: askedSizeOf(fields, isHires) }, unused);
}

function webuiRecipe(text: string | undefined): FileRecipe | undefined {
  if (text === undefined) return undefined;
  const { prompt: whole, negativePrompt, settings } = readWebuiText(text);
  if (Object.keys(settings).length === 0) return undefined;
  const { prompt, loras } = splitLoras(whole);
  const fields: Record<string, unknown> = {
    ...(prompt.trim() && { prompt: prompt.trim() }),
    ...(/[()[\]\\]|\bBREAK\b/.test(prompt + negativePrompt) && { prompt_syntax: "a1111" }),
    negative_prompt: negativePrompt,
    loras: loras.map(({ name, strength }) => ({ path: name, strength })),
  };
  const unused: string[] = [];
  // An image from text, enlarged by a second pass, says the strength of that.
  const isEnlarged = Object.keys(settings).some((name) => name.startsWith("Hires "));
  for (const [name, value] of Object.entries(settings)) {
    const field = Object.hasOwn(WEBUI_NAMES, name) ? WEBUI_NAMES[name] : undefined;
    if (field === "strength" && isEnlarged) fields["hires_strength"] = value;
    else if (field !== undefined) fields[field] = value;
    else if (!QUIET.test(name)) unused.push(`${shorten(name)} ${shorten(value)}`);
  }
  const resized = /^(\d+)x(\d+)$/.exec(settings["Hires resize"] ?? "");
  const hires = samplingOf(settings["Hires sampler"], settings["Hires schedule type"], unused);
  const upscaler = settings["Hires upscaler"];
  const knownUpscaler = upscaler === undefined ? undefined : WEBUI_HIRES_UPSCALERS.get(upscaler);
  if (upscaler !== undefined && !knownUpscaler) unused.push(`Hires upscaler ${shorten(upscaler)}`);
  return checkedRecipe("AUTOMATIC1111", {
    ...fields,
    ...samplingOf(settings["Sampler"], settings["Schedule type"], unused),
    ...(resized && { hires_width: Number(resized[1]), hires_height: Number(resized[2]) }),
    hires_upscaler: knownUpscaler,
    hires_sampler: hires.sampler,
    hires_scheduler: hires.scheduler,
  }, unused);
}

function comfyRecipe(text: string | undefined): FileRecipe | undefined {
  const graph = text === undefined ? undefined : readComfyGraph(text);
  if (!graph) return undefined;
  const unused = graph.others > 0 ? [`further sampling nodes: ${graph.others}`] : [];
  const sampling = samplingOf(graph.sampler, graph.scheduler, unused);
  const { prompt = "", negative_prompt: negative = "" } = graph.fields;
  const isWeighted = /[()\\]/.test(`${prompt}${negative}`);
  const syntax = isWeighted ? { prompt_syntax: "comfyui" } : {};
  return checkedRecipe("ComfyUI", { ...graph.fields, ...sampling, ...syntax }, unused);
}

/** A sampler and a schedule by names of others; those that nobody here has are noted. */
function samplingOf(sampler: unknown, schedule: unknown, unused: string[]) {
  const read = <T>(word: string, name: unknown, reader: (name: string) => T) => {
    if (typeof name !== "string") return undefined;
    const meaning = reader(name);
    if (!meaning) unused.push(`${word} ${shorten(name)}`);
    return meaning;
  };
  const known = read("sampler", sampler, readSampler);
  const spacing = read("schedule", schedule, readSchedule);
  return { sampler: known?.value, scheduler: spacing?.value ?? known?.scheduler };
}

/** Fields of a file, checked: each is used whole, or noted. */
function checkedRecipe(
  source: FileRecipe["source"],
  fields: Readonly<Record<string, unknown>>,
  notes: readonly string[],
): FileRecipe {
  const unused = [...notes];
  const names = new Set([...FOLLOWING, ...INPUTS.map(([name]) => name)]);
  /** What `read` makes of a field; noted where that is nothing. */
  const take = <T>(name: string, read: (value: unknown) => T | undefined): T | undefined => {
    names.add(name);
    const value = fields[name];
    if (value === undefined || value === null || value === "") return undefined;
    const taken = read(value);
    if (taken === undefined) unused.push(`${name} ${shorten(JSON.stringify(value))}`);
    return taken;
  };
  const given: Record<string, unknown> = {};
  for (const name of SETTING_NAMES) {
    const row = SETTING_FIELDS[name] as SettingField<unknown>;
    const value = take(httpNames(name, row)[0]!, (value) => readValue(row, value));
    if (value !== undefined) given[name] = value;
  }
  const settings: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(given)) {
    const row = SETTING_FIELDS[name as keyof SamplingSettings] as SettingField<unknown>;
    try {
      row.check(value, httpNames(name, row)[0]!, NO_LIMITS, given);
      settings[name] = value;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      unused.push(shorten(error.message, MAX_REASON));
    }
  }
  const prompt = take("prompt", (value) => {
    const isText = typeof value === "string" && value.length <= MAX_PROMPT_LENGTH;
    return isText && value.trim() !== "" ? value : undefined;
  });
  const model = take("model", (value) => typeof value === "string" ? value : undefined);
  const seed = take("seed", (value) => {
    const seed = readNumber(value);
    return Number.isSafeInteger(seed) && seed >= 0 ? seed : undefined;
  });
  const size = take("size", readSize);
  const loras = take("loras", readLoras) ?? [];
  let more = unused.splice(MAX_UNUSED).length;
  for (const [name, value] of Object.entries(fields)) {
    if (names.has(name)) continue;
    if (unused.length === MAX_UNUSED) more++;
    else unused.push(`${shorten(name)} ${shorten(String(JSON.stringify(value)))}`);
  }
  if (more > 0) unused.push(`and ${more} more`);
  return {
    source,
    ...(prompt === undefined ? {} : { prompt }),
    ...(model === undefined ? {} : { model }),
    ...(seed === undefined ? {} : { seed }),
    ...size,
    loras,
    settings: settings as Partial<SamplingSettings>,
    unused,
  };
}

/** A value of the kind of its row, from text, too; nothing for another. */
function readValue({ kind }: SettingField<unknown>, value: unknown): unknown {
  if (kind === "text") return typeof value === "string" ? value : undefined;
  if (kind === "flag") {
    return value === true || value === "true"
      ? true
      : value === false || value === "false"
      ? false
      : undefined;
  }
  if (kind === "integer" || kind === "number") {
    const number = readNumber(value);
    return Number.isFinite(number) ? number : undefined;
  }
  const list: unknown[] = typeof value === "string" ? value.split(",") : [value].flat();
  if (kind === "texts") {
    return list.length > 0 && list.every((each) => typeof each === "string") ? list : undefined;
  }
  const numbers = list.map(readNumber);
  return numbers.length > 0 && numbers.every(Number.isFinite) ? numbers : undefined;
}

/** NaN for what is no number. */
function readNumber(value: unknown): number {
  if (typeof value === "number") return value;
  return typeof value === "string" && value.trim() !== "" ? Number(value) : NaN;
}

/** The size of the request of a recipe of ours, where all that it is told by can be read. */
function askedSizeOf(fields: Readonly<Record<string, unknown>>, isHires: boolean): unknown {
  const [result, drawnAt] = [readSize(fields["size"]), readSize(fields["drawn_at"])];
  if (!result) return fields["size"];
  const scale = readNumber(fields["upscaling_scale"]);
  const { width, height } = askedSize({
    ...result,
    ...(drawnAt && { drawnAt }),
    enableUpscaling: String(fields["enable_upscaling"]) === "true",
    ...(scale > 0 && { upscalingScale: scale }),
    ...(fields["padding_mask_crop"] !== undefined && { paddingMaskCrop: 0 }),
  }, isHires);
  return `${width}x${height}`;
}

function readSize(value: unknown): Size | undefined {
  try {
    return typeof value === "string" ? parseSize(value) : undefined;
  } catch {
    return undefined;
  }
}

/** LoRAs as requests name them; nothing where there are too many, or one is not of that form. */
function readLoras(value: unknown): RecipeLora[] | undefined {
  if (!Array.isArray(value) || value.length > MAX_LORAS) return undefined;
  const loras = value.map(readLora);
  return loras.every((lora) => lora !== undefined) ? loras : undefined;
}

function readLora(value: unknown): RecipeLora | undefined {
  const { path, strength = 1, target = "all", alpha, merge_mode: mode = "auto" } =
    (value ?? {}) as Record<string, unknown>;
  if (typeof path !== "string" || path === "" || !isNumber(strength)) return undefined;
  if (alpha !== undefined && !isNumber(alpha)) return undefined;
  if (!LORA_TARGETS.includes(target as LoraTargetName)) return undefined;
  if (!MERGE_MODES.includes(mode as MergeMode)) return undefined;
  return {
    path,
    strength,
    target: target as LoraTargetName,
    mode: mode as MergeMode,
    ...(alpha === undefined ? {} : { alpha }),
  };
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function parseObject(text: string): Record<string, unknown> | undefined {
  const value = isCrowded(text) ? undefined : parse(text);
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? value as Record<string, unknown>
    : undefined;
}
