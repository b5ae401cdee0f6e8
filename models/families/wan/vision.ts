/**
 * An image as the image encoder sees it: brought to its square whatever shape it has.
 *
 * Source: diffusers `clip_visual_encode`; PyTorch's `interpolate(mode="bicubic")`, which keeps its four neighbours also
 * where an image gets much smaller.
 */
import { toClipPixels } from "../../image_encoders/clip_vision.ts";

/** Coefficient of PyTorch's cubic convolution. */
const A = -0.75;

/**
 * Pixels for the image encoder.
 *
 * @param image RGB in bytes
 * @returns [side, side, 3]
 */
export function seenBy(
  { width, height, data }: {
    readonly width: number;
    readonly height: number;
    readonly data: Uint8Array;
  },
  side: number,
): Float32Array<ArrayBuffer> {
  const [down, across] = [neighbours(height, side), neighbours(width, side)];
  const values = new Float32Array(side * side * 3);
  for (const [y, rows] of down.entries()) {
    for (const [x, columns] of across.entries()) {
      for (let c = 0; c < 3; c++) {
        let sum = 0;
        for (const [row, rowWeight] of rows) {
          for (const [column, columnWeight] of columns) {
            sum += rowWeight * columnWeight * data[(row * width + column) * 3 + c]!;
          }
        }
        values[(y * side + x) * 3 + c] = sum;
      }
    }
  }
  return toClipPixels(values);
}

/** Four places of the source around every place of the result, with their weights. */
function neighbours(from: number, to: number): (readonly [place: number, weight: number])[][] {
  return Array.from({ length: to }, (_, i) => {
    const place = (i + 0.5) * from / to - 0.5;
    const before = Math.floor(place);
    return [-1, 0, 1, 2].map((step) =>
      [
        Math.min(Math.max(before + step, 0), from - 1),
        cubic(Math.abs(place - before - step)),
      ] as const
    );
  });
}

function cubic(x: number): number {
  return x <= 1 ? ((A + 2) * x - (A + 3)) * x * x + 1 : x < 2 ? A * (((x - 5) * x + 8) * x - 4) : 0;
}
