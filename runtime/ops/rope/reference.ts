import type { RopeStyle } from "./mod.ts";
import { type NdArray, ndarray } from "../ndarray.ts";

export function ropeReference(x: NdArray, cos: NdArray, sin: NdArray, style: RopeStyle): NdArray {
  const [batch, length, heads, size] = x.shape as [number, number, number, number];
  const result = ndarray(x.shape);
  const half = size / 2;
  for (let b = 0; b < batch; b++) {
    for (let l = 0; l < length; l++) {
      for (let h = 0; h < heads; h++) {
        for (let i = 0; i < half; i++) {
          const base = ((b * length + l) * heads + h) * size;
          const first = base + (style === "half" ? i : 2 * i);
          const second = style === "half" ? first + half : first + 1;
          const at = ((cos.shape.length === 3 ? b * length : 0) + l) * half + i;
          const [a, c] = [x.data[first]!, x.data[second]!];
          result.data[first] = a * cos.data[at]! - c * sin.data[at]!;
          result.data[second] = c * cos.data[at]! + a * sin.data[at]!;
        }
      }
    }
  }
  return result;
}
