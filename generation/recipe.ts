/** How an image or a video was made: all that is needed to make it again. */

import type { Frames, SamplingSettings, Size } from "../engine/types.ts";
import type { Prepared } from "./prepare.ts";
import { settingsOf } from "./settings.ts";
import { exifOf, type ImageText, type OutputFormat } from "../media/encode.ts";
import { MAX_EXIF_BYTES } from "../media/jpeg.ts";
import { snakeCase } from "./field.ts";
import { MAX_PROMPT_LENGTH } from "./field_values.ts";
import { shorten } from "./texts.ts";
import { version } from "./version.ts";
import { webuiText } from "./webui.ts";

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
  /** Which layer the image is, from 0 at the back. */
  layer?: number;
  /** Whether it was made from images, which the recipe does not hold. */
  isEdited?: boolean;
  /** Whether a mask kept a part of the image that it was made from. */
  isMasked?: boolean;
  /** Whether a control picture steered it. */
  isControlled?: boolean;
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
  { model, seed, width, height, drawnAt }:
    & Pick<Recipe, "model" | "seed">
    & Pick<Frames, "width" | "height" | "drawnAt">,
): Recipe {
  const { prompt, loras, images, mask, control } = request;
  return {
    ...settingsOf(request),
    prompt,
    model,
    seed,
    width,
    height,
    ...(loras && { loras }),
    ...(drawnAt && { drawnAt }),
    ...(images.length > 0 && { isEdited: true }),
    ...(mask !== undefined && { isMasked: true }),
    ...(control !== undefined && { isControlled: true }),
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
  const { prompt, model, seed, width, height, drawnAt, layer, loras = [] } = recipe;
  const settings = Object.entries(settingsOf(recipe)).filter(([, value]) => value !== "");
  return {
    prompt,
    model,
    seed,
    size: `${width}x${height}`,
    ...(drawnAt && { drawn_at: `${drawnAt.width}x${drawnAt.height}` }),
    ...Object.fromEntries(settings.map(([name, value]) => [snakeCase(name), value])),
    ...(layer === undefined ? {} : { layer }),
    ...(recipe.isEdited && { edited: true }),
    ...(recipe.isMasked && { masked: true }),
    ...(recipe.isControlled && { controlled: true }),
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
