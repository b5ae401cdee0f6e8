/**
 * Given pictures, brought to the size in which a model takes them.
 *
 * @module
 */

import type { ModelInfo } from "../../engine/types.ts";
import { cover } from "../../media/cover.ts";
import { crop, type PixelImage, type RgbImage, toRgb } from "../../media/image.ts";
import { resize } from "../../media/resize.ts";
import { keepOwnSize, type Size, sizeLike } from "../contract/size.ts";

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
 * Makes a picture cover the size of the result, or brings it to a size of its own where the model takes that.
 *
 * @param image of any size; its transparency is left out
 * @param result size of the result
 * @param rules of the model
 * @returns the picture as the model takes it
 * @throws {RangeError} when the model cannot use it
 */
export function fitPicture(
  image: PixelImage,
  result: Size,
  { imageLimits }: PictureRules,
): RgbImage {
  if (!imageLimits) return cover(image, result.width, result.height);
  const { scaled, cut } = keepOwnSize(image, imageLimits);
  const opaque = toRgb(resize(image, scaled.width, scaled.height));
  const left = Math.floor((scaled.width - cut.width) / 2);
  const top = Math.floor((scaled.height - cut.height) / 2);
  return crop(opaque, left, top, cut.width, cut.height);
}
