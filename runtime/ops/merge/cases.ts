import type { DType } from "../../dtype.ts";
import type { DeviceTensor } from "../../device/device_tensor.ts";
import type { OpCase, OpSuite } from "../../conformance.ts";
import { type NdArray, ndarray, randomNormal } from "../ndarray.ts";
import { mergeLowRank } from "./mod.ts";

interface MergeCase {
  readonly rows: number;
  readonly columns: number;
  readonly rank: number;
  /** Rows of the weight before and behind those that are changed. */
  readonly around?: readonly [before: number, behind: number];
  readonly dtype?: DType;
  readonly factors?: DType;
}

function mergeCase(
  { rows, columns, rank, around: [before, behind] = [0, 0], dtype = "f32", factors = "f32" }:
    MergeCase,
): OpCase {
  const shape = [before + rows + behind, columns];
  return {
    name: `${rows} of [${shape}] ${dtype}, rank ${rank} ${factors}`,
    inputs: {
      weight: { values: randomNormal(shape, 1), dtype },
      up: { values: randomNormal([rows, rank], 2), dtype: factors },
      down: { values: randomNormal([rank, columns], 3), dtype: factors },
      scales: { values: randomNormal([rank], 4), dtype: "f32" },
      flags: { values: ndarray([3]), dtype: "u32" },
    },
    build: (tensors, graph) => {
      const [weight, up, down, scales, flags] = ["weight", "up", "down", "scales", "flags"]
        .map((name) => tensors[name]!.memory as DeviceTensor);
      mergeLowRank(graph, {
        weight: weight!,
        firstRow: before,
        rows,
        columns,
        up: up!,
        down: down!,
        scales: scales!,
        flags: flags!,
        flag: 1,
      });
      return [graph.use(weight!), graph.use(flags!)];
    },
    reference: ({ weight, up, down, scales, flags }) => [
      mergeReference(weight!, up!, down!, scales!, before),
      flags!,
    ],
    // Of what is read, and for f16 of what is written: half of its last place.
    tolerance: dtype === "f16" ? 2 ** -11 : 1e-6,
  };
}

function mergeReference(
  weight: NdArray,
  up: NdArray,
  down: NdArray,
  scales: NdArray,
  firstRow: number,
): NdArray {
  const result = { ...weight, data: weight.data.slice() };
  const [rows, rank] = up.shape as [number, number];
  const columns = down.shape[1]!;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let sum = 0;
      for (let r = 0; r < rank; r++) {
        sum += up.data[row * rank + r]! * scales.data[r]! * down.data[r * columns + column]!;
      }
      result.data[(firstRow + row) * columns + column]! += sum;
    }
  }
  return result;
}

/** Rows that are no multiple of a kernel's, rows within a weight, types of weights and factors. */
export const MERGE_SUITE: OpSuite = {
  variants: [""],
  cases: [
    mergeCase({ rows: 8, columns: 32, rank: 4 }),
    mergeCase({ rows: 1, columns: 4, rank: 4 }),
    mergeCase({ rows: 7, columns: 100, rank: 20, factors: "bf16" }),
    mergeCase({ rows: 6, columns: 36, rank: 8, around: [5, 3], factors: "f16" }),
    mergeCase({ rows: 9, columns: 40, rank: 12, around: [0, 2], dtype: "f16", factors: "f16" }),
  ],
};
