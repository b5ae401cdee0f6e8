import type { OpCase, OpSuite } from "../../conformance.ts";
import { type NdArray, ndarray, randomNormal } from "../ndarray.ts";
import type { DeviceTensor } from "../../device/device_tensor.ts";
import { combineTo } from "./mod.ts";

function combineCase(shape: number[], count: number, first: number, inPlace = false): OpCase {
  const names = Array.from({ length: count }, (_, k) => `x${k}`);
  return {
    name: `${count} tensors of [${shape}], coefficients from ${first}${
      inPlace ? ", into the last" : ""
    }`,
    inputs: {
      ...Object.fromEntries(
        names.map((name, k) => [name, { values: randomNormal(shape, k), dtype: "f32" as const }]),
      ),
      c: { values: randomNormal([first + count + 1], 99), dtype: "f32" },
      target: { values: ndarray(shape), dtype: "f32" },
    },
    build: (tensors, graph) => {
      const sources = names.map((name) => tensors[name]!);
      const target = (inPlace ? sources.at(-1)! : tensors["target"]!).memory as DeviceTensor;
      combineTo(sources, tensors["c"]!, first, target);
      return [graph.use(target)];
    },
    reference: (
      inputs,
    ) => [combineReference(names.map((name) => inputs[name]!), inputs["c"]!, first)],
    tolerance: 1e-6,
  };
}

function combineReference(
  arrays: readonly NdArray[],
  coefficients: NdArray,
  first: number,
): NdArray {
  const result = ndarray(arrays[0]!.shape);
  arrays.forEach(({ data }, k) =>
    data.forEach((value, i) => result.data[i]! += coefficients.data[first + k]! * value)
  );
  return result;
}

/** One to five tensors, sizes that are no multiple of 4, into another tensor or one of them. */
export const COMBINE_SUITE: OpSuite = {
  variants: [""],
  cases: [
    combineCase([4, 8], 1, 0),
    combineCase([3, 5, 7], 2, 0),
    combineCase([1], 3, 2),
    combineCase([2, 130], 5, 7),
    combineCase([3, 5, 7], 1, 1, true),
    combineCase([2, 130], 3, 0, true),
  ],
};
