import assert from "node:assert/strict";
import { parseCase } from "../../report/op_cases.ts";
import { findGates, gateTable } from "./gates.ts";
import { type OpResult, opResult } from "./op_result.ts";

function result(spec: string, gflops: number, variant?: string): OpResult {
  const op = parseCase(spec);
  const milliseconds = op.flops / gflops / 1e6;
  const ceiling = { flopsPerSecond: 1e12, bytesPerSecond: 1e12 };
  return opResult({ op, variant, deviceClass: "gpu", kernels: ["k"], milliseconds }, ceiling);
}

Deno.test("findGates() holds convolutions against the largest matrix product", () => {
  const gates = findGates([
    result("matmul:64x64x64", 20),
    result("matmul:8x8x8", 1),
    result("conv2d:8x8x4x4", 10),
    result("conv3d:2x8x8x4x4", 10),
  ], {});
  assert.deepEqual(gateTable(gates), [
    "conv2d:8x8x4x4 to matmul:64x64x64    0.50  at least 0.60  NOT MET",
    "conv3d:2x8x8x4x4 to matmul:64x64x64  0.50  at least 0.50  met",
  ]);
});

Deno.test("findGates() asks more of a quantised layer with one row than with many, nothing between", () => {
  const gates = findGates([
    ...[1, 16, 64].flatMap((m) => [
      result(`linear:${m}x8x256`, 10),
      result(`linear:${m}x8x256:q8_0`, 10),
      result(`linear:${m}x8x256:f16`, 1),
    ]),
    result("linear:128x8x256:q8_0", 1),
  ], {});
  assert.deepEqual(gateTable(gates), [
    "linear:1x8x256:q8_0 to f32   1.00  above 1.00     NOT MET",
    "linear:64x8x256:q8_0 to f32  1.00  at least 0.75  met",
  ]);
});

Deno.test("findGates() holds the loop of a program against the sum of its kernels", () => {
  const ms = (value: number) => ({ value, unit: "ms" } as const);
  const gates = findGates([], {
    "decode in a loop": ms(12),
    "decode kernels": ms(10),
    "text in a loop": ms(1),
  });
  assert.deepEqual(gateTable(gates), [
    "decode: loop to sum of kernels  1.20  at most 1.05  NOT MET",
  ]);
});

Deno.test("findGates() forms nothing of forced variants, and nothing of nothing", () => {
  assert.deepEqual(
    findGates([result("matmul:8x8x8", 1), result("conv2d:8x8x4x4", 1, "tiles")], {}),
    [],
  );
  assert.deepEqual(gateTable([]), []);
});
