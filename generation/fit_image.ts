/**
 * Given pictures, brought to the size in which a model takes them.
 *
 * @module
 */

import type { ModelInfo } from "../engine/types.ts";
import { type Fit, fit } from "../media/fit.ts";
import type { PixelImage, RgbImage } from "../media/image.ts";
import { keepOwnSize, type Size, sizeLike } from "./size.ts";

/** What a model says of the pictures that it takes and makes. */
export type PictureRules = Pick<
  ModelInfo,
  "imageLimits" | "defaults" | "sizeMultiple" | "maxPixels"
>;

/**
 * The size of a result for which none was asked: the picture's own where the model keeps it, or else about the model's
 * own number of pixels in the shape of the picture.
 *
 * @param picture the first of those given
 * @param rules of the model
 * @returns the size
 * @throws {RangeError} when the model cannot use such a picture
 */
export function sizeFromPicture(picture: Size, rules: PictureRules): Size {
  const { imageLimits, defaults } = rules;
  return imageLimits ? keepOwnSize(picture, imageLimits).cut : sizeLike(picture, defaults, rules);
}

/**
 * How a picture is brought to what a model takes: it covers the size of the result, or comes to a size of its own where
 * the model takes that.
 *
 * @param picture its size
 * @param result size of the result
 * @param rules of the model
 * @returns how
 * @throws {RangeError} when the model cannot use it
 */
export function fitOf(picture: Size, result: Size, { imageLimits }: PictureRules): Fit {
  const { width, height } = result;
  return imageLimits ? keepOwnSize(picture, imageLimits) : { cover: { width, height } };
}

/**
 * Brings a picture to what a model takes, as {@link fitOf} says.
 *
 * @param image of any size; its transparency is left out
 * @param result size of the result
 * @param rules of the model
 * @returns the picture as the model takes it
 * @throws {RangeError} when the model cannot use it
 */
export function fitPicture(image: PixelImage, result: Size, rules: PictureRules): RgbImage {
  return fit(image, fitOf(image, result, rules));
}
