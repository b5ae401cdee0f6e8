/** Images of any shape, brought to a given size. */

import { crop, type PixelImage } from "./image.ts";
import { resize } from "./resize.ts";

/** Makes an image cover a frame: nothing is stretched, and what is too much at the longer side is cut off evenly. */
export function cover<T extends PixelImage>(image: T, width: number, height: number): T {
  // Cut first: an image of one column, scaled to cover a square, would be huge in between.
  const scale = Math.min(image.width / width, image.height / height);
  const keptWidth = Math.min(image.width, Math.max(1, Math.round(width * scale)));
  const keptHeight = Math.min(image.height, Math.max(1, Math.round(height * scale)));
  const left = Math.floor((image.width - keptWidth) / 2);
  const top = Math.floor((image.height - keptHeight) / 2);
  return resize(crop(image, left, top, keptWidth, keptHeight), width, height);
}
