import { type Activation, activationReference } from "../activations.ts";
import { type NdArray, ndarray } from "../ndarray.ts";

/** y = residual + gate * activation(x · wᵀ + low rank + bias) in double precision; shapes as the op takes them. */
export function linearReference(
  { x, w, bias, gate, residual, down, up, scales }: Readonly<Record<string, NdArray>>,
  activation: Activation = "none",
): NdArray {
  const [n, k] = [w!.shape[0]!, w!.shape[1]!];
  const rows = x!.data.length / k;
  const y = ndarray([...x!.shape.slice(0, -1), n]);
  for (let row = 0; row < rows; row++) {
    const t = Array.from({ length: scales?.data.length ?? 0 }, (_, j) => {
      let sum = 0;
      for (let i = 0; i < k; i++) sum += x!.data[row * k + i]! * down!.data[j * k + i]!;
      return scales!.data[j]! * sum;
    });
    const gateRow = gate ? Math.floor(row * (gate.data.length / n) / rows) : 0;
    for (let column = 0; column < n; column++) {
      let sum = 0;
      for (let i = 0; i < k; i++) sum += x!.data[row * k + i]! * w!.data[column * k + i]!;
      t.forEach((factor, j) => sum += factor * up!.data[column * t.length + j]!);
      let value = activationReference(activation, sum + (bias?.data[column] ?? 0));
      if (gate) value *= gate.data[gateRow * n + column]!;
      y.data[row * n + column] = value + (residual?.data[row * n + column] ?? 0);
    }
  }
  return y;
}

/** activation(one half of the columns) * other half, in double precision: [..., N] to [..., N / 2]. */
export function gluReference(
  { shape, data }: NdArray,
  activation: Activation,
  activated: "first" | "second",
): NdArray {
  const columns = shape.at(-1)! / 2;
  const y = ndarray([...shape.slice(0, -1), columns]);
  y.data.forEach((_, i) => {
    const at = i + Math.floor(i / columns) * columns;
    const halves = [data[at]!, data[at + columns]!] as const;
    const [gate, value] = activated === "first" ? halves : [halves[1], halves[0]];
    y.data[i] = activationReference(activation, gate) * value;
  });
  return y;
}
