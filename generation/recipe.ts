/** How an image or a video was made: all that is needed to make it again. */

import type { Frames, SamplingSettings, Size } from "../engine/types.ts";
import type { Prepared } from "./prepare.ts";
import { settingsOf } from "./settings.ts";

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

/** How one result of a request was made. */
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
