/**
 * Images of any shape, brought to the size in which a model takes them.
 *
 * @module
 */

import { cover } from "./cover.ts";
import { crop, type PixelImage, type RgbImage, toRgb } from "./image.ts";
import { resize } from "./resize.ts";

/** A width and a height in pixels. */
interface Sides {
  readonly width: number;
  readonly height: number;
}

/** How an image is brought to a size. */
export type Fit =
  /** It covers a frame; what is too much at the longer side is cut off evenly. */
  | { readonly cover: Sides }
  /** It is scaled, and then cut in its middle. */
  | { readonly scaled: Sides; readonly cut: Sides };

/**
 * Brings an image to a size.
 *
 * @param image of any size; its transparency is left out
 * @param how it is done
 * @returns the image at that size
 * @throws {RangeError} when a side is not a positive integer, or what is cut out is too large
 */
export function fit(image: PixelImage, how: Fit): RgbImage {
  if ("cover" in how) return cover(image, how.cover.width, how.cover.height);
  const { scaled, cut } = how;
  const opaque = toRgb(resize(image, scaled.width, scaled.height));
  const left = Math.floor((scaled.width - cut.width) / 2);
  const top = Math.floor((scaled.height - cut.height) / 2);
  return crop(opaque, left, top, cut.width, cut.height);
}
