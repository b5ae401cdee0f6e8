/** Control pictures: what a model's ControlNet steers images by, and what size they give results. */

import type { ModelInfo, SamplingSettings } from "../engine/types.ts";
import { type Size, sizeLike } from "./size.ts";

/** @throws {RangeError} when the model has no ControlNet, or its ControlNet takes an image with a mask and no control picture */
export function checkTakesControl(
  { optionalParts, controlsByMask = false, needsControl }: Pick<
    ModelInfo,
    "optionalParts" | "controlsByMask" | "needsControl"
  >,
): void {
  if (controlsByMask) {
    throw new RangeError(
      "Cannot use a control picture: the ControlNet sees an image and its mask; give those, and leave the picture out",
    );
  }
  if (optionalParts.includes("controlnet") || needsControl) return;
  throw new RangeError(
    "Cannot use a control picture: the model has no ControlNet; name its file with --controlnet at the start, or leave " +
      "the picture out",
  );
}

/** The size of a result that nothing else gives: about the model's number of pixels in the shape of the control picture. */
export function controlSize(picture: Size, info: ModelInfo): Size {
  return sizeLike(picture, info.defaults, info);
}

/** @throws {RangeError} that lists the modes, where the ControlNet asks what its picture shows and nobody says */
export function checkControlMode(
  { controlMode, controlType }: Pick<SamplingSettings, "controlMode" | "controlType">,
  { controlModes }: Pick<ModelInfo, "controlModes">,
  name: string,
): void {
  const mode = controlMode ?? (controlType === "canny" ? "canny" : undefined);
  if (!controlModes || mode !== undefined && controlModes.includes(mode)) return;
  throw new RangeError(
    `${name} must say what the control picture shows, one of ${controlModes.join(", ")}` +
      (mode === undefined ? "" : `, got ${mode}`),
  );
}
