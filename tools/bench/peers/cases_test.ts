import assert from "node:assert/strict";
import { DEFAULT_SPECS, parseCase, permute } from "./cases.ts";
import { copiesOf } from "./contender.ts";

Deno.test("parseCase() reads every default and refuses what only we have", () => {
  for (const spec of DEFAULT_SPECS) assert.ok(parseCase(spec).flops > 0, spec);
  for (const spec of ["softmax:8x8", "linear:1x2x32:q8_0", "linear:1x2x32:f16"]) {
    assert.throws(() => parseCase(spec), /^RangeError: Cannot compare /, spec);
  }
});

Deno.test("permute() moves dimensions, and its inverse moves them back", () => {
  const values = Float32Array.from({ length: 24 }, (_, i) => i);
  const moved = permute(values, [2, 3, 4], [2, 0, 1]);
  // Element [c, a, b] of the result is element [a, b, c] of the input.
  assert.equal(moved[3 * 6 + 1 * 3 + 2], values[1 * 12 + 2 * 4 + 3]);
  assert.deepEqual(permute(moved, [4, 2, 3], [1, 2, 0]), values);
});

Deno.test("copiesOf() repeats small ops only, up to the most", () => {
  assert.equal(copiesOf(parseCase("matmul:1024x1024x1024"), 16), 1);
  assert.equal(copiesOf(parseCase("linear:32x640x160"), 16), 8);
  assert.equal(copiesOf(parseCase("matmul:8x8x8"), 16), 16);
});
