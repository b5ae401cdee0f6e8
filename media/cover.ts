/**
 * Images of any shape, brought to a given size.
 *
 * @module
 */

import { crop, type PixelImage, type RgbImage, toRgb } from "./image.ts";
import { resize } from "./resize.ts";

/**
 * Makes an image cover a frame: nothing is stretched, and what is too much at the longer side is cut off evenly.
 *
 * @param image of any size; its transparency is left out
 * @param width pixels per row of the result
 * @param height rows of the result
 * @returns the image at that size
 * @throws {RangeError} when a side is not a positive integer
 */
export function cover(image: PixelImage, width: number, height: number): RgbImage {
  const opaque = toRgb(image);
  // Cut first: an image of one column, scaled to cover a square, would be huge in between.
  const scale = Math.min(opaque.width / width, opaque.height / height);
  const keptWidth = Math.min(opaque.width, Math.max(1, Math.round(width * scale)));
  const keptHeight = Math.min(opaque.height, Math.max(1, Math.round(height * scale)));
  const left = Math.floor((opaque.width - keptWidth) / 2);
  const top = Math.floor((opaque.height - keptHeight) / 2);
  return resize(crop(opaque, left, top, keptWidth, keptHeight), width, height);
}
