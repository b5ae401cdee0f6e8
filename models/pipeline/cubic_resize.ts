/** PyTorch's `interpolate(mode="bicubic")`: always four neighbours, however much smaller the result is. */
import type { InputImage } from "./types.ts";

/** Coefficient of PyTorch's cubic convolution. */
const A = -0.75;

/** Pixels of RGB, [height, width, 3], with values from 0 to 255 and a little beyond. */
export function cubicResize(
  { data, ...from }: InputImage,
  { width, height }: { readonly width: number; readonly height: number },
): Float32Array<ArrayBuffer> {
  const [down, across] = [neighbours(from.height, height), neighbours(from.width, width)];
  const values = new Float32Array(height * width * 3);
  for (const [y, rows] of down.entries()) {
    for (const [x, columns] of across.entries()) {
      for (let c = 0; c < 3; c++) {
        let sum = 0;
        for (const [row, rowWeight] of rows) {
          for (const [column, columnWeight] of columns) {
            sum += rowWeight * columnWeight * data[(row * from.width + column) * 3 + c]!;
          }
        }
        values[(y * width + x) * 3 + c] = sum;
      }
    }
  }
  return values;
}

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
