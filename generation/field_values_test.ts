import { strict as assert } from "node:assert";
import { checkPrompt, checkSteps, resolveSeeds } from "./field_values.ts";

Deno.test("resolveSeeds() counts a seed up and takes a list as it is", () => {
  assert.deepEqual(resolveSeeds(0, 3), [0, 1, 2]);
  assert.deepEqual(resolveSeeds([9, 1], 2), [9, 1]);
});

Deno.test("resolveSeeds() draws a new seed where there is none, and where it is -1", () => {
  const drawn = [undefined, null, -1].flatMap((seed) =>
    Array.from({ length: 50 }, () => resolveSeeds(seed, 2))
  );
  for (const [first, second] of drawn) {
    assert.equal(second, first! + 1);
    assert.ok(Number.isInteger(first) && first! >= 0 && second! < 2 ** 32);
  }
  const different = new Set(drawn.map(([first]) => first));
  assert.ok(different.size > 140, `${different.size} different seeds of 150`);
  const [own, other] = resolveSeeds([9, -1], 2);
  assert.ok(own === 9 && other! >= 0);
});

Deno.test("resolveSeeds() takes a default seed where there is none", () => {
  assert.deepEqual(resolveSeeds(undefined, 2, 42), [42, 43]);
  assert.deepEqual(resolveSeeds(7, 1, 42), [7]);
  assert.notDeepEqual(resolveSeeds(-1, 1, 42), resolveSeeds(-1, 1, 42));
});

Deno.test("resolveSeeds() refuses seeds that are not safe integers, also those it would count to", () => {
  for (const seed of [-2, 0.5, NaN, 2 ** 53]) {
    assert.throws(() => resolveSeeds(seed, 1), /seed must be a non-negative int/);
  }
  assert.throws(() => resolveSeeds(Number.MAX_SAFE_INTEGER, 2), RangeError);
  assert.throws(
    () => resolveSeeds([1], 2),
    /Cannot use 1 seeds for 2 outputs: give one seed alone, or one for each$/,
  );
});

Deno.test("checkPrompt() and checkSteps() refuse at their limits", () => {
  checkPrompt("prompt", "a".repeat(32_000));
  assert.throws(() => checkPrompt("prompt", "a".repeat(32_001)), /the limit is 32000; shorten it$/);
  assert.throws(() => checkPrompt("prompt", "\t"), /prompt is empty/);
  checkPrompt("negative_prompt", "", true);
  checkSteps(50, 50, "steps");
  assert.throws(() => checkSteps(51, 50, "steps"), /at most 50, got 51$/);
  assert.throws(() => checkSteps(0, 50, "steps"), /must be positive$/);
});
