import assert from "node:assert/strict";
import { progressOfAll } from "./output_progress.ts";

Deno.test("progressOfAll() counts steps and time of all outputs", () => {
  const progress = {
    stage: "denoise",
    step: 5,
    totalSteps: 10,
    fraction: 0.5,
    etaSeconds: 3,
  } as const;
  assert.deepEqual(progressOfAll(progress, 0, 1), {
    stage: "denoise",
    fraction: 0.5,
    step: 5,
    totalSteps: 10,
    etaSeconds: 3,
  });
  assert.deepEqual(progressOfAll(progress, 1, 4), {
    stage: "denoise",
    fraction: 0.375,
    step: 15,
    totalSteps: 40,
    etaSeconds: 15,
  });
  const last = { stage: "decode", step: 10, totalSteps: 10, fraction: 1 } as const;
  assert.deepEqual(progressOfAll(last, 0, 2), {
    stage: "decode",
    fraction: 0.5,
    step: 10,
    totalSteps: 20,
  });
});
