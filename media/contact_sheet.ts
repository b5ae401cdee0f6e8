/** Several images on one page. */

import { checkImage, type RgbImage } from "./image.ts";

/** How {@link contactSheet} lays out its images. */
interface ContactSheetOptions {
  /** Images per row; the smallest square that holds all when left out. */
  readonly columns?: number;
  /** Pixels between images and around them; 8 when left out. */
  readonly gap?: number;
  /** R, G, B of what is not covered; white when left out. */
  readonly background?: readonly [number, number, number];
}

/**
 * Tiles images row by row. Every cell has the size of the largest image, and each image lies in the middle of its cell;
 * nothing is scaled.
 */
export function contactSheet(
  images: readonly RgbImage[],
  options: ContactSheetOptions = {},
): RgbImage {
  if (images.length === 0) {
    throw new RangeError("Cannot make contact sheet: there are no images");
  }
  images.forEach(checkImage);
  const columns = options.columns ?? Math.ceil(Math.sqrt(images.length));
  const gap = options.gap ?? 8;
  if (!Number.isSafeInteger(columns) || columns < 1) {
    throw new RangeError(`Cannot make contact sheet: ${columns} columns is not at least 1`);
  }
  if (!Number.isSafeInteger(gap) || gap < 0) {
    throw new RangeError(`Cannot make contact sheet: a gap of ${gap} pixels is not at least 0`);
  }
  const used = Math.min(columns, images.length);
  const rows = Math.ceil(images.length / used);
  const cellWidth = Math.max(...images.map((image) => image.width));
  const cellHeight = Math.max(...images.map((image) => image.height));
  const width = used * (cellWidth + gap) + gap;
  const height = rows * (cellHeight + gap) + gap;
  const data = new Uint8Array(width * height * 3);
  const [red, green, blue] = options.background ?? [255, 255, 255];
  for (let i = 0; i < data.length; i += 3) {
    data[i] = red;
    data[i + 1] = green;
    data[i + 2] = blue;
  }
  images.forEach((image, index) => {
    const cellX = gap + (index % used) * (cellWidth + gap);
    const cellY = gap + Math.floor(index / used) * (cellHeight + gap);
    const x = cellX + ((cellWidth - image.width) >> 1);
    const y = cellY + ((cellHeight - image.height) >> 1);
    for (let row = 0; row < image.height; row++) {
      const from = row * image.width * 3;
      data.set(image.data.subarray(from, from + image.width * 3), ((y + row) * width + x) * 3);
    }
  });
  return { width, height, data };
}
