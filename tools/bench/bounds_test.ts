import assert from "node:assert/strict";
import { boundsTable, findBounds } from "./bounds.ts";
import type { Figures } from "./history.ts";

const rates = (of: Record<string, number>): Figures =>
  Object.fromEntries(Object.entries(of).map(([spec, value]) => [spec, { value, unit: "GFLOP/s" }]));

Deno.test("findBounds() holds convolutions against the largest matrix product", () => {
  const bounds = findBounds(rates({
    "matmul:8x8x8": 1,
    "matmul:64x64x64": 20,
    "conv2d:8x8x4x4": 10,
    "conv3d:2x8x8x4x4": 10,
  }));
  assert.deepEqual(boundsTable(bounds), [
    "conv2d:8x8x4x4 to matmul:64x64x64    0.50  at least 0.60  NOT MET",
    "conv3d:2x8x8x4x4 to matmul:64x64x64  0.50  at least 0.50  met",
  ]);
});

Deno.test("findBounds() asks more of a quantised layer with one row than with many, nothing between", () => {
  const layers = [1, 16, 64].flatMap((rows) => [
    [`linear:${rows}x8x256`, 10],
    [`linear:${rows}x8x256:q8_0`, 9],
    [`linear:${rows}x8x256:f16`, 1],
  ]);
  const bounds = findBounds(
    rates({ ...Object.fromEntries(layers), "linear:128x8x256:q8_0": 1 }),
  );
  assert.deepEqual(boundsTable(bounds), [
    "linear:1x8x256:q8_0 to f32   0.90  at least 1.00  NOT MET",
    "linear:64x8x256:q8_0 to f32  0.90  at least 0.75  met",
  ]);
});

Deno.test("findBounds() holds programs against the sum of their kernels, and seconds against their limit", () => {
  const bounds = findBounds({
    "decode in a loop": { value: 12, unit: "ms" },
    "decode kernels": { value: 9, unit: "ms" },
    "text in a loop": { value: 1, unit: "ms" },
    "load median": { value: 1, unit: "s" },
  });
  assert.deepEqual(boundsTable(bounds), [
    "decode: kernels to loop  0.75  at least 0.95  NOT MET",
    "2 s to load median       2.00  at least 1.00  met",
  ]);
  assert.deepEqual(boundsTable(findBounds({})), []);
});
