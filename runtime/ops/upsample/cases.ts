import type { OpCase, OpSuite } from "../conformance.ts";
import { randomNormal } from "../ndarray.ts";
import { upsampleNearest } from "./mod.ts";
import { upsampleNearestReference } from "./reference.ts";

function upsampleCase(shape: number[], factor: number): OpCase {
  return {
    name: `x [${shape}] factor ${factor}`,
    inputs: { x: { values: randomNormal(shape, 1), dtype: "f32" } },
    build: ({ x }) => [upsampleNearest(x!, factor)],
    reference: ({ x }) => [upsampleNearestReference(x!, factor)],
    tolerance: 0,
  };
}

/** Odd sizes, batches, channels that do and do not divide by 4; results are exact. */
export const UPSAMPLE_SUITE: OpSuite = {
  op: "upsampleNearest",
  variants: [""],
  cases: [
    upsampleCase([1, 4, 6, 8], 2),
    upsampleCase([2, 3, 5, 3], 2),
    upsampleCase([2, 5, 3, 4], 3),
    upsampleCase([1, 2, 2, 1], 1),
  ],
};
