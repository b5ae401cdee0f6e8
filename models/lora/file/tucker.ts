/**
 * Factors of convolutions in Tucker form: a core with the taps between factors that see single taps.
 * Source: Tucker 1966; LyCORIS: LoCon (`lora_mid`), LoHa (`hada_t1`) and LoKr (`lokr_t2`).
 */
import { sharedBytes } from "../../../platform/mod.ts";
import { decodeElements, elementCount } from "../../../runtime/mod.ts";
import type { LoraTensor } from "../types.ts";

/** A core, [rank, innerRank, ...taps], times what stands right of it, [innerRank, channels]: f32 [rank, channels, ...taps]. */
export function foldCore(core: LoraTensor, down: LoraTensor): LoraTensor {
  const [rank = 1, inner = 1, ...tapSizes] = core.shape;
  const channels = elementCount(down.shape) / inner;
  const taps = elementCount(tapSizes);
  const [middle, right] = [elementsOf(core), elementsOf(down)];
  const sums = new Float64Array(channels * taps);
  const result = emptyTensor([rank, channels, ...tapSizes]);
  for (let i = 0; i < rank; i++) {
    sums.fill(0);
    for (let j = 0; j < inner; j++) {
      const start = (i * inner + j) * taps;
      for (let c = 0, at = 0; c < channels; c++) {
        const value = right[j * channels + c]!;
        for (let tap = 0; tap < taps; tap++) sums[at++]! += value * middle[start + tap]!;
      }
    }
    result.values.set(sums, i * sums.length);
  }
  return result.tensor;
}

/** A matrix [columns, rows] as [rows, columns], f32. */
export function transposed(matrix: LoraTensor): LoraTensor {
  const [columns = 1] = matrix.shape;
  const rows = elementCount(matrix.shape) / columns;
  const values = elementsOf(matrix);
  const result = emptyTensor([rows, columns]);
  for (let i = 0; i < values.length; i++) {
    result.values[(i % rows) * columns + Math.floor(i / rows)] = values[i]!;
  }
  return result.tensor;
}

export function weightedSum(
  terms: readonly (readonly [tensor: LoraTensor, factor: number])[],
): LoraTensor {
  const result = emptyTensor(terms[0]![0].shape);
  for (const [tensor, factor] of terms) {
    const values = elementsOf(tensor);
    for (let i = 0; i < values.length; i++) result.values[i]! += factor * values[i]!;
  }
  return result.tensor;
}

function elementsOf({ bytes, dtype }: LoraTensor): Float64Array {
  return decodeElements(bytes, dtype);
}

/** Zeros in shared memory. */
function emptyTensor(shape: readonly number[]): { tensor: LoraTensor; values: Float32Array } {
  const values = new Float32Array(sharedBytes(elementCount(shape) * 4));
  return { tensor: { shape, dtype: "f32", bytes: new Uint8Array(values.buffer) }, values };
}
