import assert from "node:assert/strict";
import { best, drift, mean, median, percentile, slope } from "./statistics.ts";

Deno.test("percentile() interpolates between neighbours, whatever the order", () => {
  assert.equal(percentile([40, 10, 20, 30], 0), 10);
  assert.equal(percentile([40, 10, 20, 30], 1), 40);
  assert.equal(percentile([40, 10, 20, 30], 0.5), 25);
  const hundred = Array.from({ length: 101 }, (_, i) => i);
  assert.equal(percentile(hundred, 0.99), 99);
});

Deno.test("percentile() leaves its input as it was and refuses what it cannot answer", () => {
  const values = [3, 1, 2];
  percentile(values, 0.5);
  assert.deepEqual(values, [3, 1, 2]);
  assert.throws(() => percentile([], 0.5), RangeError);
  for (const share of [-0.1, 1.1, NaN]) assert.throws(() => percentile([1], share), RangeError);
});

Deno.test("best(), median() and mean() of a skewed series differ", () => {
  const values = [9, 1, 2];
  assert.deepEqual([best(values), median(values), mean(values)], [1, 2, 4]);
  assert.throws(() => mean([]), RangeError);
});

Deno.test("slope() of a line is its rise, of a constant zero", () => {
  assert.equal(slope([5, 7, 9, 11]), 2);
  assert.equal(slope([4, 4, 4]), 0);
  assert.ok(Math.abs(slope([0, 1, 0, 1, 0])) < 1e-12);
  assert.throws(() => slope([1]), RangeError);
});

Deno.test("drift() leaves the warm-up out and compares the two ends", () => {
  const values = [100, 50, ...Array.from({ length: 30 }, (_, i) => 10 + i)];
  const { first, last, slope } = drift(values, 2);
  assert.equal(first, 14.5);
  assert.equal(last, 34.5);
  assert.ok(Math.abs(slope - 1) < 1e-12);
});
