import assert from "node:assert/strict";
import { findOutliers } from "./race.ts";

const RIGHT = Float32Array.of(1, -2, 3);

Deno.test("findOutliers() is content with results that differ by rounding", () => {
  assert.deepEqual(findOutliers([RIGHT, RIGHT.map((value) => value * 1.01)]), []);
  assert.deepEqual(findOutliers([RIGHT]), []);
  assert.deepEqual(findOutliers([]), []);
  assert.deepEqual(findOutliers([new Float32Array(3), new Float32Array(3)]), []);
});

Deno.test("findOutliers() finds the one that differs from the others, be it the first", () => {
  const wrong = Float32Array.of(1, -2, 4);
  assert.deepEqual(findOutliers([RIGHT, wrong, RIGHT]), [1]);
  assert.deepEqual(findOutliers([wrong, RIGHT, RIGHT]), [0]);
  assert.deepEqual(findOutliers([RIGHT, wrong]), [1]);
});

Deno.test("findOutliers() trusts no result with NaN or infinities", () => {
  assert.deepEqual(findOutliers([Float32Array.of(1, NaN, 3), RIGHT, RIGHT]), [0]);
  assert.deepEqual(findOutliers([RIGHT, Float32Array.of(1, Infinity, 3)]), [1]);
  const broken = Float32Array.of(NaN);
  assert.deepEqual(findOutliers([broken, broken]), [0, 1]);
});
