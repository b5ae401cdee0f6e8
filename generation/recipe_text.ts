/**
 * The text that an image carries: its recipe as metadata of the file.
 *
 * @module
 */

import type { OutputFormat } from "../media/encode.ts";
import { snakeCase } from "./field.ts";
import type { Recipe, RecipeLora } from "./recipe.ts";
import { settingsOf } from "./settings.ts";
import { version } from "./version.ts";
import { webuiText } from "./webui.ts";

/** EXIF holds 64 KiB at most; a character takes up to 6 bytes there, and there are two prompts. */
const MAX_EXIF_TEXT = 4000;

/**
 * A recipe as metadata, with the names that requests use.
 *
 * @param recipe how the image was made
 * @param format of the file; all but PNG get long prompts shortened
 * @returns text by keyword
 */
export function recipeText(recipe: Recipe, format: OutputFormat): Record<string, string> {
  const text: Record<string, string> = {
    Software: `denoise ${version}`,
    prompt: recipe.prompt,
    model: recipe.model,
    seed: String(recipe.seed),
    size: `${recipe.width}x${recipe.height}`,
    drawn_at: recipe.drawnAt ? `${recipe.drawnAt.width}x${recipe.drawnAt.height}` : "",
    ...Object.fromEntries(
      Object.entries(settingsOf(recipe)).map(([name, value]) => [snakeCase(name), String(value)]),
    ),
    layer: String(recipe.layer ?? ""),
    masked: recipe.isMasked ? "true" : "",
    controlled: recipe.isControlled ? "true" : "",
    parameters: format === "png" ? webuiText(recipe) : "",
    loras: recipe.loras?.length ? JSON.stringify(recipe.loras.map(toItem)) : "",
  };
  const limit = format === "png" ? Infinity : MAX_EXIF_TEXT;
  return Object.fromEntries(
    Object.entries(text)
      .filter(([, value]) => value !== "")
      .map(([name, value]) => [name, shorten(writable(value), limit)]),
  );
}

/** A LoRA as requests name it. */
function toItem({ path, strength = 1, target = "all", alpha, mode = "auto" }: RecipeLora) {
  return {
    ...{ path, strength, target },
    ...(alpha === undefined ? {} : { alpha }),
    ...(mode === "auto" ? {} : { merge_mode: mode }),
  };
}

/** No metadata format holds NUL, and half a surrogate pair is not text. */
function writable(value: string): string {
  return value.toWellFormed().replaceAll("\0", "\ufffd");
}

function shorten(value: string, limit: number): string {
  return value.length <= limit ? value : `${value.slice(0, limit).toWellFormed()}…`;
}
