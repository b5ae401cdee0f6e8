import { stridesOf } from "../../shape.ts";
import { type NdArray, ndarray } from "../ndarray.ts";

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
