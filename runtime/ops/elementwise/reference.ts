import { broadcastShapes, stridesOf } from "../../shape.ts";
import { type NdArray, ndarray } from "../ndarray.ts";

/** Applies `compute` to broadcast arrays element by element, in double precision. */
export function elementwiseReference(
  compute: (...values: number[]) => number,
  inputs: readonly NdArray[],
): NdArray {
  const result = ndarray(broadcastShapes(inputs.map(({ shape }) => shape)));
  const strides = stridesOf(result.shape);
  const ownStrides = inputs.map(({ shape }) => stridesOf(shape));
  for (let i = 0; i < result.data.length; i++) {
    const values = inputs.map(({ shape, data }, k) => {
      const lead = result.shape.length - shape.length;
      let offset = 0;
      shape.forEach((size, axis) => {
        if (size === 1) return;
        const coordinate = Math.floor(i / strides[lead + axis]!) % result.shape[lead + axis]!;
        offset += coordinate * ownStrides[k]![axis]!;
      });
      return data[offset]!;
    });
    result.data[i] = compute(...values);
  }
  return result;
}
