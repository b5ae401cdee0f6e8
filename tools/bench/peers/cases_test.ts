import assert from "node:assert/strict";
import { DEFAULT_SPECS, makeInputs, parseCase, permute } from "./cases.ts";
import { copiesOf } from "./contender.ts";

Deno.test("parseCase() knows shapes, work and traffic of every op", () => {
  const linear = parseCase("linear:32x640x160");
  assert.deepEqual([linear.inputs, linear.output], [[[32, 160], [640, 160]], [32, 640]]);
  assert.equal(linear.flops, 2 * 32 * 640 * 160);
  assert.equal(linear.bytes, 4 * (32 * 160 + 640 * 160 + 32 * 640));
  assert.deepEqual(parseCase("matmul:2x3x4").inputs, [[2, 4], [4, 3]]);
  assert.equal(parseCase("attention:1024x24x128").flops, 4 * 24 * 1024 * 1024 * 128);
  const conv = parseCase("conv2d:5x6x7x8");
  assert.deepEqual([conv.inputs[1], conv.output], [[8, 3, 3, 7], [1, 5, 6, 8]]);
  assert.equal(conv.flops, 2 * 5 * 6 * 8 * 9 * 7);
});

Deno.test("parseCase() reads every default and refuses what is no op or no size", () => {
  for (const spec of DEFAULT_SPECS) assert.ok(parseCase(spec).flops > 0, spec);
  for (const spec of ["fft:8", "toString:1", "matmul:8x8", "matmul:8x8x0", "linear:8x8x8x8", ""]) {
    assert.throws(() => parseCase(spec), /^RangeError: Cannot compare /, spec);
  }
});

Deno.test("makeInputs() fills every input differently", () => {
  const [q, k, v] = makeInputs(parseCase("attention:4x2x8"));
  assert.equal(q!.length, 64);
  assert.equal(new Set([...q!, ...k!, ...v!]).size, 3 * 64);
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
