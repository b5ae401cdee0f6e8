/**
 * Given images, brought to the size in which a model takes them.
 *
 * @module
 */

import type { ModelInfo } from "../engine/types.ts";
import { type Fit, fit } from "../media/fit.ts";
import type { PixelImage, RgbImage } from "../media/image.ts";
import { keepOwnSize, type Size, sizeLike } from "./size.ts";

/** What a model says of the images that it takes and makes. */
export type ImageRules = Pick<
  ModelInfo,
  "imageLimits" | "defaults" | "sizeMultiple" | "maxPixels"
>;

/**
 * The size of a result for which none was asked: the image's own where the model keeps it, or else about the model's
 * own number of pixels in the shape of the image.
 *
 * @param image the first of those given
 * @param rules of the model
 * @returns the size
 * @throws {RangeError} when the model cannot use such an image
 */
export function sizeFromImage(image: Size, rules: ImageRules): Size {
  const { imageLimits, defaults } = rules;
  return imageLimits ? keepOwnSize(image, imageLimits).cut : sizeLike(image, defaults, rules);
}

/**
 * How an image is brought to what a model takes: it covers the size of the result, or comes to a size of its own where
 * the model takes that.
 *
 * @param image its size
 * @param result size of the result
 * @param rules of the model
 * @returns how
 * @throws {RangeError} when the model cannot use it
 */
export function fitOf(image: Size, result: Size, { imageLimits }: ImageRules): Fit {
  const { width, height } = result;
  return imageLimits ? keepOwnSize(image, imageLimits) : { cover: { width, height } };
}

/**
 * Brings an image to what a model takes, as {@link fitOf} says.
 *
 * @param image of any size; its transparency is left out
 * @param result size of the result
 * @param rules of the model
 * @returns the image as the model takes it
 * @throws {RangeError} when the model cannot use it
 */
export function fitImage(image: PixelImage, result: Size, rules: ImageRules): RgbImage {
  return fit(image, fitOf(image, result, rules));
}
