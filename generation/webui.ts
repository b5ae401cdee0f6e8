/**
 * The text of Stable Diffusion WebUI, which is called AUTOMATIC1111, about how an image was made: many programs read it.
 */

import { basename } from "node:path";
import type { Recipe } from "./recipe.ts";
import { version } from "./version.ts";
import { nameOf, WEBUI_SAMPLERS, WEBUI_SCHEDULES } from "./webui_names.ts";

/** The part of a recipe that the text tells. */
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
  | "seed"
  | "width"
  | "height"
  | "model"
  | "loras"
>;

/**
 * How an image was made, as WebUI writes it into `parameters` of PNG files.
 *
 * @returns prompt, negative prompt, and a line of settings
 */
export function webuiText(recipe: Told): string {
  const loras = (recipe.loras ?? []).map(({ path, strength = 1 }) =>
    `<lora:${basename(path).replace(/\.safetensors$/, "")}:${strength}>`
  );
  const settings: Record<string, string | number | undefined> = {
    Steps: recipe.numInferenceSteps,
    Sampler: nameOf(WEBUI_SAMPLERS, recipe.sampler),
    "Schedule type": nameOf(WEBUI_SCHEDULES, recipe.scheduler) ??
      (recipe.sigmas || recipe.sampler === "dmd" ? undefined : "Automatic"),
    "CFG scale": recipe.guidanceScale,
    Seed: recipe.seed,
    Size: `${recipe.width}x${recipe.height}`,
    Model: recipe.model,
    "Denoising strength": recipe.strength,
    Version: `denoise ${version}`,
  };
  const line = Object.entries(settings).filter(([, value]) => value !== undefined)
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
