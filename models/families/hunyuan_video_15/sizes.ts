/** Sizes of videos. Source: diffusers `HunyuanVideo15ImageProcessor`, its `generate_crop_size_list`. */
import type { Shape } from "../../pipeline/shapes.ts";

/** How many times longer one side may be than the other. */
const MAX_ASPECT = 4;

/** Of every shape the largest size, in steps of `multiple`, with at most the pixels of a square; the widest last. */
export function videoSizes(side: number, multiple: number): Shape[] {
  const patches = Math.round((side / multiple) ** 2);
  const sizes: Shape[] = [];
  let [rows, columns] = [patches, 1];
  while (rows > 0) {
    if (Math.max(rows, columns) / Math.min(rows, columns) <= MAX_ASPECT) {
      sizes.push({ width: columns * multiple, height: rows * multiple });
    }
    if ((columns + 1) * rows <= patches) columns++;
    else rows--;
  }
  return sizes;
}
