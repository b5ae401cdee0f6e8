import type { DType } from "../../dtype.ts";
import type { OpCase, OpSuite } from "../../conformance.ts";
import { type NdArray, ndarray, randomNormal } from "../ndarray.ts";
import { resizeBilinear, warp } from "./mod.ts";

function resizeCase(x: number[], height: number, width: number, dtype: DType = "f32"): OpCase {
  return {
    name: `x [${x}] to ${height} rows of ${width} ${dtype}`,
    inputs: { x: { values: randomNormal(x, 1), dtype } },
    build: ({ x }) => [resizeBilinear(x!, height, width)],
    reference: ({ x }) => [resizeReference(x!, height, width)],
    tolerance: 2e-6,
  };
}

function warpCase(x: number[], far: number, dtype: DType = "f32"): OpCase {
  return {
    name: `x [${x}] flow of about ${far} ${dtype}`,
    inputs: {
      x: { values: randomNormal(x, 1), dtype },
      flow: { values: randomNormal([...x.slice(0, 3), 2], 2, far), dtype: "f32" },
    },
    build: ({ x, flow }) => [warp(x!, flow!)],
    reference: ({ x, flow }) => [warpReference(x!, flow!)],
    // Positions are rounded to f32 before their parts behind the point count.
    tolerance: 2e-5,
  };
}

/** Smaller and larger, by whole factors and others, channels that do and do not fill vectors. */
export const RESIZE_SUITE: OpSuite = {
  variants: [""],
  cases: [
    resizeCase([1, 16, 8, 15], 2, 1),
    resizeCase([2, 3, 5, 13], 12, 20),
    resizeCase([1, 4, 6, 8], 4, 6),
    resizeCase([1, 7, 5, 4], 10, 3, "f16"),
    resizeCase([1, 1, 1, 1], 3, 2, "bf16"),
  ],
};

/** Within a pixel, over several, and far beyond the edges. */
export const WARP_SUITE: OpSuite = {
  variants: [""],
  cases: [
    warpCase([1, 7, 9, 3], 0.5),
    warpCase([2, 8, 5, 8], 3),
    warpCase([1, 6, 6, 7], 100),
    warpCase([1, 5, 4, 4], 1, "f16"),
    warpCase([1, 1, 1, 1], 2, "bf16"),
  ],
};

/** Images at positions between their pixels, in double precision; the edge goes on. */
function sampled(
  x: NdArray,
  [rows, columns]: readonly [number, number],
  position: (image: number, row: number, column: number) => readonly [down: number, right: number],
): NdArray {
  const [batch, height, width, channels] = x.shape as [number, number, number, number];
  const y = ndarray([batch, rows, columns, channels]);
  const clamp = (value: number, size: number) => Math.min(Math.max(value, 0), size - 1);
  let at = 0;
  for (let image = 0; image < batch; image++) {
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const [wantedDown, wantedRight] = position(image, row, column);
        const [down, right] = [clamp(wantedDown, height), clamp(wantedRight, width)];
        const [top, left] = [Math.floor(down), Math.floor(right)];
        for (let c = 0; c < channels; c++) {
          const pixel = (r: number, s: number) =>
            x.data[
              ((image * height + clamp(r, height)) * width + clamp(s, width)) * channels + c
            ]!;
          const mixed = (r: number) =>
            pixel(r, left) * (1 - (right - left)) + pixel(r, left + 1) * (right - left);
          y.data[at++] = mixed(top) * (1 - (down - top)) + mixed(top + 1) * (down - top);
        }
      }
    }
  }
  return y;
}

/** Images at another size; pixels are areas. */
export function resizeReference(x: NdArray, height: number, width: number): NdArray {
  const [, ownHeight, ownWidth] = x.shape as [number, number, number, number];
  return sampled(x, [height, width], (_, row, column) => [
    (row + 0.5) * ownHeight / height - 0.5,
    (column + 0.5) * ownWidth / width - 0.5,
  ]);
}

export function warpReference(x: NdArray, flow: NdArray): NdArray {
  const [, height, width] = x.shape as [number, number, number, number];
  return sampled(x, [height, width], (image, row, column) => {
    const at = 2 * ((image * height + row) * width + column);
    return [row + flow.data[at + 1]!, column + flow.data[at]!];
  });
}
