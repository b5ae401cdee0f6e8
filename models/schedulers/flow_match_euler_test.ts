import assert from "node:assert/strict";
import { model, schedulerGolden } from "../../tests/support/scheduler_golden.ts";
import { FlowMatchEulerScheduler } from "./flow_match_euler.ts";
import { applyStep } from "../../tests/support/apply_step.ts";

const golden = schedulerGolden<{ readonly float32: readonly (readonly number[])[] }>(
  "flow_match_euler",
);

Deno.test("FlowMatchEulerScheduler.setTimesteps() gives the float32 sigmas and timesteps of diffusers, every bit", () => {
  for (const { name, config, steps, options, timesteps, sigmas } of golden.cases) {
    const schedule = new FlowMatchEulerScheduler(config).setTimesteps(steps, options);
    assert.deepEqual([...schedule.sigmas], sigmas, `${name}, ${steps} steps`);
    assert.deepEqual([...schedule.timesteps], timesteps, `${name}, ${steps} steps`);
  }
});

Deno.test("FlowMatchEulerScheduler.setTimesteps() rounds a shift that float32 does not hold as NumPy does", () => {
  const sigmas = Array.from({ length: 7 }, (_, i) => 1 - i / 7);
  const { timesteps } = new FlowMatchEulerScheduler({ shift: 1.73 }).setTimesteps(7, { sigmas });
  const expected = [
    1000.0,
    912.1265869140625,
    812.20654296875,
    697.5806884765625,
    564.7443237304688,
    408.98345947265625,
    223.80337524414062,
  ];
  assert.deepEqual([...timesteps], expected);
});

Deno.test("FlowMatchEulerScheduler steps follow the trajectory of diffusers", () => {
  let worst = 0;
  for (const { name, config, steps, options, float32, noise } of golden.cases) {
    const schedule = new FlowMatchEulerScheduler(config).setTimesteps(steps, options);
    assert.equal(schedule.history, 0);
    assert.equal(schedule.needsNoise, noise !== undefined);
    const sample = Float64Array.from(golden.start);
    for (let i = 0; i < schedule.timesteps.length; i++) {
      const fresh = Float64Array.from(noise?.[i] ?? []);
      const tensors = { sample, output: model(sample, i), ...(noise && { noise: fresh }) };
      applyStep(schedule.step(i), tensors);
      float32[i]!.forEach((expected, j) => {
        const error = Math.abs(sample[j]! - expected) / Math.max(1, Math.abs(expected));
        worst = Math.max(worst, error);
        assert.ok(
          error < 1e-6,
          `${name}, ${steps} steps: step ${i}, element ${j} is ${sample[j]}, not ${expected}`,
        );
      });
    }
  }
  assert.ok(worst > 0, "a float32 reference that agrees in every bit was not compared");
});

Deno.test("FlowMatchEulerScheduler.mu() is the line through the configuration's two points", () => {
  const flux = new FlowMatchEulerScheduler({ base_shift: 0.5, max_shift: 1.15 });
  assert.ok(Math.abs(flux.mu(256) - 0.5) < 1e-12);
  assert.ok(Math.abs(flux.mu(4096) - 1.15) < 1e-12);
  const qwen = new FlowMatchEulerScheduler({ max_shift: 0.9, max_image_seq_len: 8192 });
  assert.ok(Math.abs(qwen.mu(4224) - 0.7) < 1e-12);
});

Deno.test("FlowMatchEulerScheduler.setTimesteps() needs mu under dynamic shifting", () => {
  const scheduler = new FlowMatchEulerScheduler({ use_dynamic_shifting: true });
  assert.ok(scheduler.usesDynamicShifting);
  assert.throws(() => scheduler.setTimesteps(4), /mu is not given/);
});

Deno.test("FlowMatchEulerScheduler.setTimesteps() refuses steps and options that do not fit", () => {
  const scheduler = new FlowMatchEulerScheduler({});
  for (const steps of [0, -1, 2.5, NaN]) {
    assert.throws(() => scheduler.setTimesteps(steps), /number of steps/);
  }
  assert.throws(() => scheduler.setTimesteps(3, { sigmas: [1, 0.5] }), /2 sigmas are given/);
  assert.throws(() => scheduler.setTimesteps(3, { start: 3 }), /steps 0 to 2/);
  assert.throws(() => scheduler.setTimesteps(3).step(3), /has 3 steps/);
});

Deno.test("FlowMatchEulerScheduler refuses a shift_terminal that one step cannot reach", () => {
  const scheduler = new FlowMatchEulerScheduler({ shift_terminal: 0.02 });
  assert.throws(() => scheduler.setTimesteps(1), /shift_terminal/);
});

Deno.test("FlowMatchEulerScheduler spaces noise levels as its file says, unless a request says otherwise", () => {
  const plain = new FlowMatchEulerScheduler({ shift: 3 });
  for (const name of ["karras", "exponential", "beta"] as const) {
    const scheduler = new FlowMatchEulerScheduler({ shift: 3, [`use_${name}_sigmas`]: true });
    const { sigmas } = scheduler.setTimesteps(6);
    assert.deepEqual(sigmas, plain.setTimesteps(6, { scheduler: name }).sigmas);
    const simple = { scheduler: "simple" } as const;
    assert.deepEqual(
      scheduler.setTimesteps(6, simple).sigmas,
      plain.setTimesteps(6, simple).sigmas,
    );
  }
});

Deno.test("FlowMatchEulerScheduler refuses what it does not implement, by name", () => {
  assert.throws(() => new FlowMatchEulerScheduler({ invert_sigmas: true }), /invert_sigmas/);
  new FlowMatchEulerScheduler({ invert_sigmas: false });
  assert.throws(() => new FlowMatchEulerScheduler({ time_shift_type: "cubic" }), /"cubic"/);
  assert.throws(() => new FlowMatchEulerScheduler({ shift: "3" }), /shift: "3" is not a number/);
});
