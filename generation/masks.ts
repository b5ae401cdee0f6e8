/**
 * Edits of which a mask keeps a part of the image: what may be said of them, and how image and mask are brought to the
 * size of the result.
 *
 * @module
 */

import type { ModelInfo, TaskType } from "../engine/types.ts";
import type { Fit } from "../media/fit.ts";
import type { PixelImage, RgbImage } from "../media/image.ts";
import { maskOf, paintedShare } from "../media/mask.ts";
import type { Size } from "./size.ts";

/** How much the shapes of mask and image may differ. */
const SHAPE_TOLERANCE = 0.02;

/**
 * Whether a model can keep a part of an image by a mask.
 *
 * @param info of the model
 * @param task that the request is for
 * @returns true if it can
 */
export function takesMask(info: Pick<ModelInfo, "inpainting">, task: TaskType): boolean {
  return task === "TI2I" && info.inpainting !== undefined;
}

/**
 * What a model says of its settings, for requests with a mask: they have a strength, with a default of its own.
 *
 * @param info of a model that {@link takesMask}
 * @returns the rules
 */
export function maskedRules(info: ModelInfo): ModelInfo {
  const TI2I = { ...info.taskDefaults["TI2I"], ...info.inpainting };
  return { ...info, taskDefaults: { ...info.taskDefaults, TI2I } };
}

/**
 * Refuses masks that are not of the image.
 *
 * @param mask its size
 * @param image size of the image
 * @throws {RangeError} when their shapes differ
 */
export function checkMaskShape(mask: Size, image: Size): void {
  const stretch = mask.width / mask.height * image.height / image.width;
  if (Math.abs(Math.log(stretch)) <= SHAPE_TOLERANCE) return;
  throw new RangeError(
    `Cannot use a mask of ${mask.width}x${mask.height}: the image has ${image.width}x${image.height}; ` +
      "send a mask of that size, or of its shape",
  );
}

/**
 * Refuses masks that leave nothing to do.
 *
 * @param share how much of the result is painted
 * @throws {RangeError} when nothing is
 */
export function checkPainted(share: number): void {
  if (share > 0) return;
  throw new RangeError(
    "Cannot use the mask: it keeps all of the image; make white, or transparent, what is to be painted",
  );
}

/**
 * Brings a mask to the size of the result.
 *
 * @param mask white or transparent where the image is painted anew
 * @param how as `fitToResult()` says
 * @returns white where it is painted
 * @throws {RangeError} when nothing is
 */
export function fitMask(mask: PixelImage, how: Fit): RgbImage {
  const fitted = maskOf(mask, how);
  checkPainted(paintedShare(fitted));
  return fitted;
}
