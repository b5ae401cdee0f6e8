import assert from "node:assert/strict";
import { parseCase, specOf } from "./loaded_op.ts";
import { DEFAULT_SPECS } from "../tools/bench/ops.ts";

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
  assert.deepEqual(parseCase("softmax:3x5").output, [3, 5]);
});

Deno.test("parseCase() counts the frames that a causal convolution sees: 1, 2, 3, 3, …", () => {
  const perFrame = 2 * 5 * 6 * 9 * 7 * 8;
  for (const [frames, seen] of [[1, 1], [2, 3], [3, 6], [4, 9]]) {
    assert.equal(parseCase(`conv3d:${frames}x5x6x7x8`).flops, seen! * perFrame, `${frames} frames`);
  }
});

Deno.test("parseCase() counts a quantised weight by the bytes of its blocks", () => {
  const q8 = parseCase("linear:1x64x256:q8_0");
  assert.equal(q8.weights, "q8_0");
  assert.equal(q8.bytes, 4 * (256 + 64) + 64 * (256 / 32) * 34);
  assert.equal(parseCase("linear:1x64x256:bf16").bytes, 4 * (256 + 64) + 2 * 64 * 256);
});

Deno.test("parseCase() reads back what specOf() writes, and every default", () => {
  for (const spec of [...DEFAULT_SPECS, "linear:1x64x256:q4_k", "conv2d:8x8x4x4"]) {
    const parsed = parseCase(spec);
    assert.deepEqual(parseCase(specOf(parsed)), parsed);
  }
});

Deno.test("parseCase() refuses what is no op, no size or no format of the op", () => {
  const wrong = ["fft:8", "toString:1", "matmul:8x8", "matmul:8x8x0", "linear:8x8x8x8", ""];
  for (const spec of [...wrong, "matmul:8x8x8:f16", "conv2d:8x8x4x4:q8_0", "linear:1x2x3:q3"]) {
    assert.throws(() => parseCase(spec), /^RangeError: Cannot bench /, spec);
  }
});
