/** Several images on one page. */

import type { RgbImage } from "../media/image.ts";

/** Tiles images row by row on white. Every cell has the size of the largest image; each image lies in the middle of its cell. */
export function contactSheet(images: readonly RgbImage[], columns: number, gap: number): RgbImage {
  const used = Math.min(columns, images.length);
  const rows = Math.ceil(images.length / used);
  const cellWidth = Math.max(...images.map((image) => image.width));
  const cellHeight = Math.max(...images.map((image) => image.height));
  const width = used * (cellWidth + gap) + gap;
  const height = rows * (cellHeight + gap) + gap;
  const data = new Uint8Array(width * height * 3).fill(255);
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
