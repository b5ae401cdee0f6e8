import { type NdArray, ndarray } from "../ndarray.ts";

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
