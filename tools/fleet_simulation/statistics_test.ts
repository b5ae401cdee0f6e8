import { strict as assert } from "node:assert";
import { Random, Weighted } from "./random.ts";
import { jain, maxMinShares, Times } from "./statistics.ts";

Deno.test("Times.percentile() is right to two per cent", () => {
  const times = new Times();
  for (let second = 1; second <= 1000; second++) times.add(second);
  for (const share of [0.01, 0.5, 0.95, 0.99, 1]) {
    const found = times.percentile(share) / (share * 1000);
    assert.ok(found > 0.98 && found < 1.021, `p${share * 100}: ${found}`);
  }
  assert.equal(times.mean, 500.5);
  assert.equal(times.longest, 1000);
  assert.equal(new Times().percentile(0.5), 0);
});

Deno.test("jain() is 1 for equal shares and 1 / n for one who has all", () => {
  assert.equal(jain([2, 2, 2]), 1);
  assert.equal(jain([5, 0, 0, 0]), 0.25);
  assert.equal(jain([]), 1);
});

Deno.test("maxMinShares() gives nobody more than they want, and the others the same", () => {
  assert.deepEqual(maxMinShares([1, 10, 10], 9), [1, 4, 4]);
  assert.deepEqual(maxMinShares([1, 2], 9), [1, 2]);
  assert.deepEqual(maxMinShares([], 9), []);
});

Deno.test("Random draws with the means that it is asked for, and repeats itself", () => {
  const random = new Random(3);
  const mean = (draw: () => number) => {
    let sum = 0;
    for (let count = 0; count < 20_000; count++) sum += draw();
    return sum / 20_000;
  };
  const near = (value: number, wanted: number) =>
    assert.ok(Math.abs(value / wanted - 1) < 0.05, `${value} for ${wanted}`);
  near(mean(() => random.uniform()), 0.5);
  near(mean(() => random.exponential(7)), 7);
  near(mean(() => random.geometric(9)), 9);
  near(mean(() => random.logNormal(5, 0.4)), 5);
  const weighted = new Weighted([1, 0, 3]);
  near(mean(() => weighted.draw(random)), 1.5);
  assert.deepEqual(
    Array.from({ length: 4 }, () => new Random(9).uniform()),
    Array(4).fill(new Random(9).uniform()),
  );
});
