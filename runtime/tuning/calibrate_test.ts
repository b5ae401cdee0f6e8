import assert from "node:assert/strict";
import { calibrateSubmits, rank } from "./calibrate.ts";

const FALLBACK = { flops: 1e11, bytes: 5e9 };
const race = (flops: number, bytes: number, microseconds: number) => ({
  flops,
  bytes,
  timings: [{ variant: "a", microseconds }],
});

Deno.test("rank() puts the fastest first, but the rule's own choice before it on a par", () => {
  const times = (a: number, b: number) =>
    rank(
      [{ variant: "a", microseconds: a }, { variant: "b", microseconds: b }],
      "b",
    ).map(({ variant }) => variant);
  assert.deepEqual(times(10, 20), ["a", "b"]);
  assert.deepEqual(times(10, 10.5), ["b", "a"]);
  assert.deepEqual(times(20, 10), ["b", "a"]);
  assert.deepEqual(rank([], "b"), []);
  assert.equal(rank([{ variant: "a", microseconds: 1 }], "b")[0]!.variant, "a");
});

Deno.test("calibrateSubmits() gives a tenth of a second of the slowest arithmetic and of the slowest memory", () => {
  const budget = calibrateSubmits([
    race(4e9, 1e7, 1000), // 4 TFLOP/s
    race(2e9, 1e7, 1000), // 2 TFLOP/s
    race(1e7, 1e8, 1000), // 100 GB/s
    race(1e7, 1e8, 500),
  ], FALLBACK);
  assert.ok(Math.abs(budget.flops - 2e11) < 1);
  assert.ok(Math.abs(budget.bytes - 1e10) < 1);
});

Deno.test("calibrateSubmits() leaves out what is too short to say something, and keeps what it cannot tell", () => {
  assert.deepEqual(calibrateSubmits([], FALLBACK), FALLBACK);
  assert.deepEqual(calibrateSubmits([race(1e6, 1e4, 5), race(1e4, 1e6, 5)], FALLBACK), FALLBACK);
  assert.deepEqual(calibrateSubmits([{ ...race(1e9, 1e6, 1), timings: [] }], FALLBACK), FALLBACK);
});
