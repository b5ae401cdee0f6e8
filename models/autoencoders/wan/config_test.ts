import assert from "node:assert/strict";
import { latentFrameCount } from "./config.ts";

Deno.test("latentFrameCount() gives one latent frame and one more for every `temporal` frames", () => {
  assert.deepEqual([1, 5, 9, 81].map((frames) => latentFrameCount(frames, 4)), [1, 2, 3, 21]);
  assert.deepEqual([2, 3, 4, 6, 8].map((frames) => latentFrameCount(frames, 4)), [1, 1, 2, 2, 3]);
});
