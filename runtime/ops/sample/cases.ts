import type { DType } from "../../dtype.ts";
import type { OpCase, OpSuite } from "../../conformance.ts";
import { randomNormal } from "../ndarray.ts";
import { resizeBilinear, warp } from "./mod.ts";
import { resizeReference, warpReference } from "./reference.ts";

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
