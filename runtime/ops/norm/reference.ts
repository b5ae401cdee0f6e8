import { type Activation, activationReference } from "../activations.ts";
import { elementwiseReference } from "../elementwise/reference.ts";
import { type NdArray, ndarray } from "../ndarray.ts";

interface RowNormOperands {
  weight?: NdArray | undefined;
  bias?: NdArray | undefined;
  scale?: NdArray | undefined;
  shift?: NdArray | undefined;
  gate?: NdArray | undefined;
  residual?: NdArray | undefined;
  activation?: Activation;
}

export function layerNormReference(x: NdArray, eps: number, operands: RowNormOperands): NdArray {
  return finish(
    mapRows(x, (row) => {
      const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
      const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
      return row.map((value) => (value - mean) / Math.sqrt(variance + eps));
    }),
    operands,
  );
}

/** Root-mean-square or Euclidean normalisation over the last axis in double precision. */
export function rmsNormReference(
  x: NdArray,
  eps: number,
  kind: "rms" | "l2",
  operands: RowNormOperands,
): NdArray {
  return finish(
    mapRows(x, (row) => {
      const squares = row.reduce((sum, value) => sum + value * value, 0);
      const factor = kind === "rms"
        ? 1 / Math.sqrt(squares / row.length + eps)
        : Math.sqrt(row.length) / Math.max(Math.sqrt(squares), eps);
      return row.map((value) => value * factor);
    }),
    operands,
  );
}

export function groupNormReference(
  x: NdArray,
  groups: number,
  eps: number,
  operands: RowNormOperands,
): NdArray {
  const channels = x.shape.at(-1)!;
  const batch = x.shape[0]!;
  const own = channels / groups;
  const positions = x.data.length / batch / channels;
  const result = ndarray(x.shape);
  for (let b = 0; b < batch; b++) {
    for (let g = 0; g < groups; g++) {
      const places: number[] = [];
      for (let s = 0; s < positions; s++) {
        for (let c = 0; c < own; c++) places.push((b * positions + s) * channels + g * own + c);
      }
      const mean = places.reduce((sum, at) => sum + x.data[at]!, 0) / places.length;
      const variance = places.reduce((sum, at) => sum + (x.data[at]! - mean) ** 2, 0) /
        places.length;
      for (const at of places) result.data[at] = (x.data[at]! - mean) / Math.sqrt(variance + eps);
    }
  }
  return finish(result, operands);
}

function mapRows(x: NdArray, compute: (row: Float64Array) => Float64Array): NdArray {
  const channels = x.shape.at(-1)!;
  const result = ndarray(x.shape);
  for (let at = 0; at < x.data.length; at += channels) {
    result.data.set(compute(x.data.subarray(at, at + channels)), at);
  }
  return result;
}

function finish(normal: NdArray, operands: RowNormOperands): NdArray {
  const { weight, bias, scale, shift, gate, residual, activation = "none" } = operands;
  let y = normal;
  if (weight) y = elementwiseReference((a, b) => a * b, [y, weight]);
  if (bias) y = elementwiseReference((a, b) => a + b, [y, bias]);
  if (scale) y = elementwiseReference((a, b) => a * (1 + b), [y, scale]);
  if (shift) y = elementwiseReference((a, b) => a + b, [y, shift]);
  y = elementwiseReference((a) => activationReference(activation, a), [y]);
  if (gate) y = elementwiseReference((a, b) => Math.tanh(b) * a, [y, gate]);
  return residual ? elementwiseReference((a, b) => a + b, [y, residual]) : y;
}
