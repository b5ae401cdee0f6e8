import type { DType } from "../../dtype.ts";
import type { OpCase, OpSuite } from "../../conformance.ts";
import { type NdArray, ndarray, randomNormal } from "../ndarray.ts";
import { softmax, SOFTMAX_VARIANTS } from "./mod.ts";

function softmaxCase(
  shape: readonly number[],
  magnitude = 1,
  scale?: number,
  dtype: DType = "f32",
): OpCase {
  return {
    name: `[${shape}] ±${magnitude}${scale === undefined ? "" : ` scale ${scale}`} ${dtype}`,
    inputs: { x: { values: randomNormal(shape, 1, magnitude), dtype } },
    build: ({ x }) => [softmax(x!, scale === undefined ? {} : { scale })],
    reference: ({ x }) => [softmaxReference(x!, scale)],
    tolerance: 2e-5,
  };
}

/** One element, one row, odd and long rows, large magnitudes, storage formats. */
export const SOFTMAX_SUITE: OpSuite = {
  variants: SOFTMAX_VARIANTS,
  cases: [
    softmaxCase([1]),
    softmaxCase([3, 1]),
    softmaxCase([1, 7]),
    softmaxCase([2, 3, 5, 64]),
    softmaxCase([17, 33]),
    softmaxCase([4, 1000], 3),
    softmaxCase([5, 257], 1e4),
    softmaxCase([5, 256], 1e4),
    softmaxCase([9, 20], 1e4, 1e-4),
    softmaxCase([9, 20], 4, -0.5),
    softmaxCase([6, 30], 2, 1, "f16"),
    softmaxCase([6, 32], 2, 1, "bf16"),
  ],
};

/** softmax(scale * x) over the last axis in double precision. */
export function softmaxReference(x: NdArray, scale = 1): NdArray {
  const n = x.shape.at(-1)!;
  const y = ndarray(x.shape);
  for (let start = 0; start < x.data.length; start += n) {
    const row = x.data.subarray(start, start + n).map((value) => scale * value);
    const top = Math.max(...row);
    const powers = row.map((value) => Math.exp(value - top));
    const total = powers.reduce((sum, power) => sum + power, 0);
    y.data.set(powers.map((power) => power / total), start);
  }
  return y;
}
