import { broadcastShapes, elementCount, stridesOf } from "../../shape.ts";
import { type NdArray, ndarray } from "../ndarray.ts";

/** y = scale * a · b (b transposed on demand) in double precision; leading dimensions broadcast. */
export function matmulReference(a: NdArray, b: NdArray, transposeB = false, scale = 1): NdArray {
  const [m, k] = a.shape.slice(-2) as [number, number];
  const n = b.shape.at(transposeB ? -2 : -1)!;
  const lead = broadcastShapes([a.shape.slice(0, -2), b.shape.slice(0, -2)]);
  const y = ndarray([...lead, m, n]);
  for (let z = 0; z < elementCount(lead); z++) {
    const aStart = matrixIndex(a.shape, lead, z) * m * k;
    const bStart = matrixIndex(b.shape, lead, z) * n * k;
    for (let row = 0; row < m; row++) {
      for (let column = 0; column < n; column++) {
        let sum = 0;
        for (let i = 0; i < k; i++) {
          sum += a.data[aStart + row * k + i]! *
            b.data[bStart + (transposeB ? column * k + i : i * n + column)]!;
        }
        y.data[(z * m + row) * n + column] = scale * sum;
      }
    }
  }
  return y;
}

/** Which matrix of an array with broadcast leading dimensions belongs to matrix `z` of the result. */
function matrixIndex(shape: readonly number[], lead: readonly number[], z: number): number {
  const own = shape.slice(0, -2);
  const strides = stridesOf(lead);
  return own.reduce((index, size, axis) => {
    const at = lead.length - own.length + axis;
    const coordinate = Math.floor(z / strides[at]!) % lead[at]!;
    return index * size + (size === 1 ? 0 : coordinate);
  }, 0);
}
