import assert from "node:assert/strict";
import type { TimedOp } from "../../report/types.ts";
import { opFigures, opTable } from "./ops.ts";

const OPS: readonly TimedOp[] = [
  {
    ...{ spec: "linear:64x64x256:q8_0", variant: "", kernels: ["prepare", "gemm/rows"] },
    ...{ ms: 2, flops: 4e9, bytes: 1e6, share: 0.5 },
  },
  {
    ...{ spec: "softmax:64x64", variant: "group", kernels: ["softmax/group"] },
    ...{ ms: 0.5, flops: 1e3, bytes: 1e6, share: 0.25 },
  },
];

Deno.test("opFigures() leave out variants that were only tried", () => {
  assert.deepEqual(opFigures(OPS), {
    "linear:64x64x256:q8_0": { value: 2000, unit: "GFLOP/s" },
  });
});

Deno.test("opTable() names the last kernel, the rate that bounds the op, and the ceilings", () => {
  const ceilings = { flopsPerSecond: 4e12, matrixFlopsPerSecond: 8e12, bytesPerSecond: 8e9 };
  assert.deepEqual(opTable({ ops: OPS, ceilings }), [
    "                          time          rate  of ceiling  kernel",
    "linear:64x64x256:q8_0  2.00 ms  2.00 TFLOP/s        50 %  gemm/rows",
    "softmax:64x64           500 µs     2.00 GB/s        25 %  group: softmax/group",
    "ceiling: 4.00 TFLOP/s, on matrix units 8.00 TFLOP/s, 8.00 GB/s",
  ]);
});
