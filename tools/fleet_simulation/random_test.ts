import { strict as assert } from "node:assert";
import { Random, Weighted } from "./random.ts";

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
