/** Control pictures and reference images: what is wrong with those of a request, and what size results have by them. */

import type { ModelInfo, SamplingSettings } from "../engine/types.ts";
import {
  checkPainted,
  controlCountProblem,
  controlProblem,
  isControlled,
} from "../models/pipeline/control_units.ts";
import { referenceProblem } from "../models/pipeline/references.ts";
import { FieldError, spellSettings } from "./settings.ts";
import { type Size, sizeLike } from "./size.ts";

/** @throws {FieldError} for more pictures than the model takes */
export function checkControlCount(count: number, info: ModelInfo): void {
  const problem = count > 0 ? controlCountProblem(count, info) : undefined;
  if (problem) throw new FieldError("control", problem);
}

/** @throws {FieldError} for more pictures than the model takes, or settings that do not go with them */
export function checkControls(
  settings: SamplingSettings,
  count: number,
  info: ModelInfo,
  spell: (name: keyof SamplingSettings) => string = (name) => name,
): void {
  const isGiven = count > 0 || isControlled(settings);
  const problem = isGiven ? controlProblem(settings, info, count) : undefined;
  if (problem) throw new FieldError(problem.field, spellSettings(problem.text, spell));
}

/** @throws {FieldError} for settings or masks that do not go with so many reference images */
export function checkSeen(
  settings: SamplingSettings,
  { references, masks }: { readonly references: number; readonly masks: number },
  info: ModelInfo,
  spell: (name: keyof SamplingSettings) => string = (name) => name,
): void {
  const problem = referenceProblem(settings, info, references, masks);
  if (problem) throw new FieldError(problem.field, spellSettings(problem.text, spell));
}

/** @throws {FieldError} where a picture is made of an image and its mask, and there is no mask */
export function checkControlMask(
  settings: SamplingSettings,
  isMasked: boolean,
  spell: (name: keyof SamplingSettings) => string = (name) => name,
): void {
  try {
    checkPainted(settings, isMasked);
  } catch (error) {
    throw new FieldError("controlType", spellSettings((error as Error).message, spell));
  }
}

/** The size of a result that nothing else gives: about the model's number of pixels in the shape of the control picture. */
export function controlSize(picture: Size, info: ModelInfo): Size {
  return sizeLike(picture, info.defaults, info);
}
