import type { DType } from "../../dtype.ts";
import type { WeightFormat } from "../../quantization/block_format.ts";
import type { OpCase, OpSuite } from "../../conformance.ts";
import { type NdArray, ndarray, randomIntegers, randomNormal } from "../ndarray.ts";
import type { Check } from "../op.ts";
import { elementwiseReference } from "../elementwise/reference.ts";
import { sampleWeight } from "../sample_blocks.ts";
import { gather } from "./mod.ts";

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

function addCase(rows: number, channels: number, indices: number[], dtype: DType): OpCase {
  const { name, inputs } = gatherCase(rows, channels, indices, "f32");
  return {
    name: `${name}, plus ${dtype}`,
    inputs: { ...inputs, addend: { values: randomNormal([...indices, channels], 3), dtype } },
    build: ({ table, indices, addend }) => [gather(table!, indices!, { addend: addend! })],
    reference: ({ table, indices, addend }) => [
      elementwiseReference((a, b) => a + b, [gatherReference(table!, indices!), addend!]),
    ],
    tolerance: 1e-7,
  };
}

function quantizedCase(format: WeightFormat, channels: number, scale?: number): OpCase {
  return {
    ...gatherCase(41, channels, [77], "f32"),
    name: `table [41,${channels}] indices [77] ${format}${scale ? ` scale ${scale}` : ""}`,
    inputs: {
      table: sampleWeight([41, channels], format, 1, 0.02, scale),
      indices: { values: randomIntegers([77], 2, 41), dtype: "u32" },
    },
    // One unit in the last place: a GPU may fuse factor and offset into one operation.
    tolerance: 1.2e-7,
  };
}

/** Row lengths that do and do not divide by 4, in every storage format; what is not quantised is exact. */
export const GATHER_SUITE: OpSuite = {
  variants: [""],
  cases: [
    ...(["f32", "f16", "bf16"] as const).flatMap((dtype) => [
      gatherCase(17, 12, [2, 9], dtype),
      gatherCase(7, 5, [11], dtype),
      gatherCase(1, 1, [3, 1, 2], dtype),
      gatherCase(300, 160, [77], dtype),
    ]),
    addCase(9, 12, [2, 5], "f32"),
    addCase(7, 5, [11], "bf16"),
    quantizedCase("q8_0", 96),
    quantizedCase("q5_1", 96),
    quantizedCase("q5_0", 288),
    quantizedCase("q4_1", 160),
    quantizedCase("q4_0", 160),
    quantizedCase("q6_k", 768),
    quantizedCase("q5_k", 256),
    quantizedCase("q4_k", 512),
    quantizedCase("q3_k", 768),
    quantizedCase("q2_k", 256),
    quantizedCase("iq4_nl", 288),
    quantizedCase("iq4_xs", 512),
    quantizedCase("mxfp4", 160),
    quantizedCase("f8_e5m2", 36, 0.37),
    quantizedCase("f8_e4m3", 36),
    quantizedCase("f8_e4m3", 64, 0.37),
  ],
};

export const GATHER_CHECKS: readonly Check[] = [
  { name: "gather", cases: GATHER_SUITE.cases.slice(0, 2) },
  {
    name: "gather: quantised tables",
    cases: [quantizedCase("q8_0", 96), quantizedCase("q4_k", 512), quantizedCase("q6_k", 768)],
  },
];

export function gatherReference(table: NdArray, indices: NdArray): NdArray {
  const channels = table.shape[1]!;
  const result = ndarray([...indices.shape, channels]);
  indices.data.forEach((row, i) => {
    result.data.set(table.data.subarray(row * channels, (row + 1) * channels), i * channels);
  });
  return result;
}
