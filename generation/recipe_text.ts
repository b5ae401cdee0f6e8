/** The texts that an image carries: its recipe as metadata of the file. */

import { exifOf, type ImageText, type OutputFormat } from "../media/encode.ts";
import { MAX_EXIF_BYTES } from "../media/jpeg.ts";
import { snakeCase } from "./field.ts";
import type { Recipe, RecipeLora } from "./recipe.ts";
import { MAX_PROMPT_LENGTH } from "./sampling.ts";
import { settingsOf } from "./settings.ts";
import { shorten } from "./shorten.ts";
import { version } from "./version.ts";
import { webuiText } from "./webui.ts";

/**
 * A recipe as metadata: in WebUI's words, and as JSON with the names that requests use.
 *
 * @param recipe how the image was made
 * @param format of the file; long prompts are shortened in JPEG, which has room for 64 KiB
 * @returns text by keyword
 */
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
    ...{ prompt, model, seed, size: `${width}x${height}` },
    ...(drawnAt && { drawn_at: `${drawnAt.width}x${drawnAt.height}` }),
    ...Object.fromEntries(settings.map(([name, value]) => [snakeCase(name), value])),
    ...(layer === undefined ? {} : { layer }),
    ...(recipe.isEdited && { edited: true }),
    ...(recipe.isMasked && { masked: true }),
    ...(recipe.isControlled && { controlled: true }),
    ...(loras.length > 0 && { loras: loras.map(loraFields) }),
  };
}

/**
 * A LoRA as requests name it.
 *
 * @param lora of a recipe
 * @returns a JSON value
 */
export function loraFields(
  { path, strength = 1, target = "all", alpha, mode = "auto" }: RecipeLora,
): Record<string, unknown> {
  return {
    ...{ path, strength, target },
    ...(alpha === undefined ? {} : { alpha }),
    ...(mode === "auto" ? {} : { merge_mode: mode }),
  };
}

/** No metadata format holds NUL, and half a surrogate pair is not text. */
function writable(value: string, most = Infinity): string {
  return shorten(value.toWellFormed().replaceAll("\0", "\ufffd"), most);
}
