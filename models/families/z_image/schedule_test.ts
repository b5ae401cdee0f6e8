import assert from "node:assert/strict";
import { FlowMatchEulerScheduler } from "../../schedulers/mod.ts";
import { elapsedTime, zImageSchedule } from "./sampling.ts";

Deno.test("zImageSchedule() gives the sigmas and timesteps of the reference for Turbo's 8 steps", () => {
  const { sigmas, timesteps } = zImageSchedule(new FlowMatchEulerScheduler({ shift: 3 }), 4096, 8);
  // ZImagePipeline of diffusers 0.42.1 with FlowMatchEulerDiscreteScheduler(shift=3.0).
  const expected = {
    sigmas: [1, 0.954545438, 0.899999976, 0.833333313, 0.75, 0.642857134, 0.5, 0.300000012, 0],
    timesteps: [1000, 954.54541, 900, 833.333313, 750, 642.857117, 500, 300],
  };
  assert.deepEqual(Array.from(sigmas), expected.sigmas.map(Math.fround));
  assert.deepEqual(Array.from(timesteps), expected.timesteps.map(Math.fround));
});

Deno.test("zImageSchedule() begins later for an image, and makes do with one step", () => {
  const scheduler = new FlowMatchEulerScheduler({ shift: 3 });
  const whole = zImageSchedule(scheduler, 4096, 8);
  const part = zImageSchedule(scheduler, 4096, 8, { start: 3 });
  assert.deepEqual(part.sigmas, whole.sigmas.slice(3));
  assert.deepEqual([...zImageSchedule(scheduler, 4096, 1).sigmas], [1, 0]);
});

Deno.test("elapsedTime() runs from 0 to 1 against the scheduler's timesteps", () => {
  assert.equal(elapsedTime(1000), 0);
  assert.equal(elapsedTime(0), 1);
  assert.equal(elapsedTime(250), 0.75);
});
