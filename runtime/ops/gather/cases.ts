import type { DType } from "../../dtype.ts";
import type { OpCase, OpSuite } from "../conformance.ts";
import { randomIntegers, randomNormal } from "../ndarray.ts";
import { gather } from "./mod.ts";
import { gatherReference } from "./reference.ts";

function gatherCase(rows: number, channels: number, indices: number[], dtype: DType): OpCase {
  return {
    name: `table [${rows},${channels}] indices [${indices}] ${dtype}`,
    inputs: {
      table: { values: randomNormal([rows, channels], 1), dtype },
      indices: { values: randomIntegers(indices, 2, rows), dtype: "u32" },
    },
    build: ({ table, indices }) => [gather(table!, indices!)],
    reference: ({ table, indices }) => [gatherReference(table!, indices!)],
    tolerance: 0,
  };
}

/** Row lengths that do and do not divide by 4, in every storage format; results are exact. */
export const GATHER_SUITE: OpSuite = {
  op: "gather",
  variants: [""],
  cases: (["f32", "f16", "bf16"] as const).flatMap((dtype) => [
    gatherCase(17, 12, [2, 9], dtype),
    gatherCase(7, 5, [11], dtype),
    gatherCase(1, 1, [3, 1, 2], dtype),
    gatherCase(300, 160, [77], dtype),
  ]),
};
