import assert from "node:assert/strict";
import { Composition, maskLatents } from "./inpainting.ts";

Deno.test("maskLatents() is the mean of a position's pixels, the same in all planes", () => {
  const mask = Uint8Array.of(255, 255, 0, 0, 255, 255, 51, 0);
  const latents = maskLatents(mask, { width: 4, height: 2 }, [1, 2, 1, 2]);
  assert.deepEqual([...latents], [1, 0.05, 1, 0.05].map(Math.fround));
});

Deno.test("Composition.apply() leaves kept pixels to the bit, in numbers and in bytes", () => {
  const data = Uint8Array.from({ length: 256 * 3 }, (_, i) => i % 256);
  const size = { width: 256, height: 1 };
  const mask = Uint8Array.from({ length: 256 }, (_, i) => i < 128 ? 0 : 255);
  const request = {
    ...{ ...size, task: "TI2I" as const, prompt: "", negativePrompt: "", numFrames: 1, seed: 0 },
    ...{ numInferenceSteps: 1, guidanceScale: 1, images: [{ ...size, data }], mask: [mask] },
  };
  const composition = new Composition(request);
  const bytes = composition.apply(new Uint8Array(256 * 3).fill(7));
  const numbers = composition.apply(new Float32Array(256 * 3).fill(0.5));
  assert.deepEqual(bytes.subarray(0, 128 * 3), data.subarray(0, 128 * 3));
  assert.deepEqual([...new Set(bytes.subarray(128 * 3))], [7]);
  const rounded = Uint8ClampedArray.from(numbers, (value) => value * 255);
  assert.deepEqual([...rounded.subarray(0, 128 * 3)], [...data.subarray(0, 128 * 3)]);
  assert.deepEqual([...new Set(numbers.subarray(128 * 3))], [0.5]);
});
