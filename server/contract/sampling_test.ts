import { strict as assert } from "node:assert";
import { checkGuidance, checkPrompt, checkSteps, resolveSeeds } from "./sampling.ts";

Deno.test("resolveSeeds() counts a seed up and takes a list as it is", () => {
  assert.deepEqual(resolveSeeds(undefined, 2), [42, 43]);
  assert.deepEqual(resolveSeeds(0, 3), [0, 1, 2]);
  assert.deepEqual(resolveSeeds([9, 1], 2), [9, 1]);
});

Deno.test("resolveSeeds() refuses seeds that are not safe integers, also those it would count to", () => {
  for (const seed of [-1, 0.5, NaN, 2 ** 53]) {
    assert.throws(() => resolveSeeds(seed, 1), /seed must be a non-negative int/);
  }
  assert.throws(() => resolveSeeds(Number.MAX_SAFE_INTEGER, 2), RangeError);
  assert.throws(() => resolveSeeds([1], 2), /seed list length must match .* \(2\).*, got 1$/);
});

Deno.test("checkPrompt(), checkSteps() and checkGuidance() refuse at their limits", () => {
  checkPrompt("prompt", "a".repeat(32_000));
  assert.throws(() => checkPrompt("prompt", "a".repeat(32_001)), /the limit is 32000; shorten it$/);
  assert.throws(() => checkPrompt("prompt", "\t"), /prompt is empty/);
  checkPrompt("negative_prompt", "", true);
  checkSteps(50, 50);
  assert.throws(() => checkSteps(51, 50), /at most 50, got 51$/);
  assert.throws(() => checkSteps(0, 50), /must be positive$/);
  checkGuidance("guidance_scale", 0);
  assert.throws(() => checkGuidance("guidance_scale", -0.1), /non-negative$/);
  assert.throws(() => checkGuidance("guidance_scale", Infinity), /finite, got Infinity$/);
});
