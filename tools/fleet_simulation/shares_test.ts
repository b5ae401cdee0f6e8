import { strict as assert } from "node:assert";
import { jain, maxMinShares } from "./shares.ts";

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
