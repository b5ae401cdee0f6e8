/** Sums of what a tensor holds. */
import { elementwise, linear, type Tensor } from "../../runtime/mod.ts";

export function squares(x: Tensor): Tensor {
  return elementwise("x * x", { x });
}

/** [..., n] summed to [..., 1]. */
export function sumOfRows(x: Tensor): Tensor {
  const count = x.dim(-1);
  const values = new Float32Array(count).fill(1);
  const ones = x.graph.constant(`ones ${count}`, [1, count], "f32", values);
  return linear(x, ones, { name: "sum" });
}

/** All elements of [1, m, n] summed to [1, 1, 1]; by rows first, so that no sum is long. */
export function sumOfAll(x: Tensor): Tensor {
  return sumOfRows(sumOfRows(x).reshape(1, 1, x.dim(1)));
}

/** The variance of all elements of [1, m, n], less its divisor, which is the same for all of a size. */
export function squaredSpread(x: Tensor): Tensor {
  const scalars = { size: x.size };
  const mean = elementwise("s / size", { s: sumOfAll(x) }, { scalars });
  return sumOfAll(squares(elementwise("x - m", { x, m: mean })));
}
