import assert from "node:assert/strict";
import { WAN_VAE_CONFIG } from "../../autoencoders/wan/config.ts";
import {
  denormalizeFrame,
  latentFrameCount,
  normalizeMoments,
  replaceFirstFrame,
} from "./latents.ts";

const CONFIG = WAN_VAE_CONFIG.parse({
  z_dim: 2,
  latents_mean: [10, -20],
  latents_std: [2, 4],
});

Deno.test("latentFrameCount() gives one latent frame and one more for every `temporal` frames", () => {
  assert.deepEqual([1, 5, 9, 81].map((frames) => latentFrameCount(frames, 4)), [1, 2, 3, 21]);
  assert.deepEqual([2, 3, 4, 6, 8].map((frames) => latentFrameCount(frames, 4)), [1, 1, 2, 2, 3]);
});

Deno.test("denormalizeFrame() takes one frame, channels last, times std plus mean", () => {
  // [1, 2 channels, 2 frames, 1 row, 3 columns]
  const latents = Float32Array.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  const shape = [1, 2, 2, 1, 3];
  assert.deepEqual(
    denormalizeFrame(latents, 0, shape, CONFIG),
    Float32Array.of(10, 4, 12, 8, 14, 12),
  );
  assert.deepEqual(
    denormalizeFrame(latents, 1, shape, CONFIG),
    Float32Array.of(16, 16, 18, 20, 20, 24),
  );
});

Deno.test("normalizeMoments() takes the means, channels first, and undoes denormalizeFrame()", () => {
  // [1 row, 2 columns, 2 means and 2 log-variances]
  const moments = Float32Array.of(12, -16, 99, 99, 8, -28, 99, 99);
  const frame = normalizeMoments(moments, CONFIG);
  assert.deepEqual(frame, Float32Array.of(1, -1, 1, -2));
  assert.deepEqual(
    denormalizeFrame(frame, 0, [1, 2, 1, 1, 2], CONFIG),
    Float32Array.of(12, -16, 8, -28),
  );
});

Deno.test("replaceFirstFrame() leaves the other frames of every channel as they are", () => {
  const latents = Float32Array.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  replaceFirstFrame(latents, Float32Array.of(-1, -2, -3, -4, -5, -6), [1, 2, 2, 1, 3]);
  assert.deepEqual(latents, Float32Array.of(-1, -2, -3, 3, 4, 5, -4, -5, -6, 9, 10, 11));
});
