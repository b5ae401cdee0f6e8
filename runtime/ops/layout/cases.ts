import type { DType } from "../../dtype.ts";
import type { CaseInput, OpCase, OpSuite } from "../../conformance.ts";
import { type NdArray, ndarray, randomIntegers, randomNormal } from "../ndarray.ts";
import { concat, permute, slice } from "./mod.ts";
import { stridesOf } from "../../shape.ts";

function inputOf(shape: readonly number[], seed: number, dtype: DType): CaseInput {
  const values = dtype === "u32" ? randomIntegers(shape, seed, 1000) : randomNormal(shape, seed);
  return { values, dtype };
}

function concatCase(shape: number[], axis: number, sizes: number[], dtype: DType = "f32"): OpCase {
  const names = sizes.map((_, i) => `part${i}`);
  return {
    name: `[${shape}] sizes [${sizes}] along ${axis} ${dtype}`,
    inputs: Object.fromEntries(
      sizes.map((size, i) => [names[i]!, inputOf(shape.with(axis, size), i, dtype)]),
    ),
    build: (tensors) => [
      concat(names.map((name) => tensors[name]!), axis),
      concat(names.map((name) => tensors[name]!), axis - shape.length),
    ],
    reference: (arrays) => {
      const result = concatReference(names.map((name) => arrays[name]!), axis);
      return [result, result];
    },
    tolerance: 0,
  };
}

function sliceCase(
  shape: number[],
  axis: number,
  start: number,
  end: number,
  dtype: DType = "f32",
): OpCase {
  return {
    name: `[${shape}] ${start} to ${end} along ${axis} ${dtype}`,
    inputs: { x: inputOf(shape, 1, dtype) },
    build: ({ x }) => [
      slice(x!, axis, start, end),
      slice(x!, axis - shape.length, start - shape[axis]!),
    ],
    reference: ({ x }) => [
      sliceReference(x!, axis, start, end),
      sliceReference(x!, axis, start, shape[axis]!),
    ],
    tolerance: 0,
  };
}

function permuteCase(shape: number[], axes: number[], dtype: DType = "f32"): OpCase {
  return {
    name: `[${shape}] by [${axes}] ${dtype}`,
    inputs: { x: inputOf(shape, 1, dtype) },
    build: ({ x }) => [permute(x!, axes)],
    reference: ({ x }) => [permuteReference(x!, axes)],
    tolerance: 0,
  };
}

/** Every axis, odd and divisible sizes, one part and many, storage formats and integers. */
export const CONCAT_SUITE: OpSuite = {
  variants: [""],
  cases: [
    concatCase([1], 0, [5, 3, 1]),
    concatCase([1, 8], 0, [2, 3]),
    concatCase([3, 1], 1, [4, 8]),
    concatCase([3, 1], 1, [5, 4]),
    concatCase([2, 1, 16], 1, [3, 7]),
    concatCase([2, 3, 5, 1], 3, [4, 12]),
    concatCase([2, 1, 3, 5, 7], 1, [1, 2]),
    concatCase([2, 3, 2, 1, 3, 4], 3, [2, 1, 3]),
    concatCase([2, 1], 1, [7], "bf16"),
    concatCase([2, 1], 1, [8, 4], "f16"),
    concatCase([3, 1], 1, [2, 5], "u32"),
  ],
};

/** Every axis, odd and divisible ranges, negative bounds, all of a tensor, storage formats and integers. */
export const SLICE_SUITE: OpSuite = {
  variants: [""],
  cases: [
    sliceCase([9], 0, 2, 7),
    sliceCase([5, 8], 0, 1, 3),
    sliceCase([5, 8], 1, 4, 8),
    sliceCase([5, 8], 1, 3, 5),
    sliceCase([2, 7, 16], 1, 0, 3),
    sliceCase([2, 3, 5, 12], 3, 4, 8),
    sliceCase([2, 4, 3, 5, 7], 1, 3, 4),
    sliceCase([2, 3, 2, 5, 3, 4], 3, 1, 4),
    sliceCase([4, 6], 0, 0, 4),
    sliceCase([3, 7], 1, 0, 7, "bf16"),
    sliceCase([3, 8], 1, 4, 8, "f16"),
    sliceCase([3, 7], 1, 1, 6, "u32"),
  ],
};

/** Ranks 1 to 6, dimensions that merge, that stay innermost and that do not, patches, storage formats. */
export const PERMUTE_SUITE: OpSuite = {
  variants: [""],
  cases: [
    permuteCase([7], [0]),
    permuteCase([1, 1], [1, 0]),
    permuteCase([5, 7], [1, 0]),
    permuteCase([4, 8], [0, 1], "f16"),
    permuteCase([1, 5, 1, 3], [2, 1, 0, 3]),
    permuteCase([2, 3, 8], [1, 0, 2]),
    permuteCase([2, 3, 5], [2, 0, 1]),
    permuteCase([2, 5, 3, 16], [0, 2, 1, 3]),
    permuteCase([2, 5, 3, 4], [0, 2, 3, 1], "bf16"),
    permuteCase([1, 3, 2, 5, 2], [0, 1, 3, 2, 4]),
    permuteCase([2, 3, 2, 5, 2, 4], [0, 1, 3, 2, 4, 5]),
    permuteCase([2, 3, 2, 5, 2, 3], [5, 1, 3, 2, 4, 0]),
    permuteCase([3, 4], [1, 0], "u32"),
  ],
};

function build(shape: readonly number[], value: (index: number[]) => number): NdArray {
  const result = ndarray(shape);
  const strides = stridesOf(shape);
  for (let i = 0; i < result.data.length; i++) {
    result.data[i] = value(strides.map((stride, axis) => Math.floor(i / stride) % shape[axis]!));
  }
  return result;
}

function valueAt({ shape, data }: NdArray, index: readonly number[]): number {
  return data[stridesOf(shape).reduce((sum, stride, axis) => sum + stride * index[axis]!, 0)]!;
}

export function concatReference(arrays: readonly NdArray[], axis: number): NdArray {
  const total = arrays.reduce((sum, { shape }) => sum + shape[axis]!, 0);
  return build(arrays[0]!.shape.with(axis, total), (index) => {
    let at = index[axis]!;
    let part = 0;
    while (at >= arrays[part]!.shape[axis]!) at -= arrays[part++]!.shape[axis]!;
    return valueAt(arrays[part]!, index.with(axis, at));
  });
}

/** Elements `start … end - 1` along an axis, none of them negative. */
export function sliceReference(x: NdArray, axis: number, start: number, end: number): NdArray {
  return build(
    x.shape.with(axis, end - start),
    (index) => valueAt(x, index.with(axis, index[axis]! + start)),
  );
}

export function permuteReference(x: NdArray, axes: readonly number[]): NdArray {
  return build(axes.map((axis) => x.shape[axis]!), (index) => {
    const own = new Array<number>(axes.length);
    axes.forEach((axis, i) => own[axis] = index[i]!);
    return valueAt(x, own);
  });
}
