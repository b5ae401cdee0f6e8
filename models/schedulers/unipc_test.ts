import assert from "node:assert/strict";
import { close, model, schedulerGolden } from "../../tests/support/scheduler_golden.ts";
import { UniPcScheduler } from "./multistep.ts";
import { applyStep } from "../../tests/support/apply_step.ts";

const golden = schedulerGolden<{
  readonly float32: readonly number[];
  readonly float64: readonly (readonly number[])[];
}>("unipc");

const wan = { prediction_type: "flow_prediction", use_flow_sigmas: true, flow_shift: 5 };

Deno.test("UniPcScheduler.setTimesteps() gives the sigmas and whole timesteps of diffusers", () => {
  for (const { name, config, steps, options, timesteps, sigmas } of golden.cases) {
    const schedule = new UniPcScheduler(config).setTimesteps(steps, options);
    assert.deepEqual([...schedule.timesteps], timesteps, `${name}, ${steps} steps`);
    assert.deepEqual([...schedule.sigmas], sigmas, `${name}, ${steps} steps`);
  }
});

Deno.test("UniPcScheduler steps follow the trajectory of diffusers in float64, and its end in float32", () => {
  for (const { name, config, steps, options, float32, float64 } of golden.cases) {
    const schedule = new UniPcScheduler(config).setTimesteps(steps, options);
    const sample = Float64Array.from(golden.start);
    const tensors: Record<string, Float64Array> = { sample };
    // NaN in every slot shows that none is read before it is written.
    for (let slot = 0; slot < schedule.history; slot++) {
      tensors[`history${slot}`] = new Float64Array(sample.length).fill(NaN);
    }
    for (let i = 0; i < schedule.timesteps.length; i++) {
      tensors["output"] = model(sample, i);
      applyStep(schedule.step(i), tensors);
      float64[i]!.forEach((expected, j) => {
        close(sample[j]!, expected, 1e-10, `${name}, ${steps} steps: step ${i}, element ${j}`);
      });
    }
    float32.forEach((expected, j) => {
      close(sample[j]!, expected, 1e-6, `${name}, ${steps} steps: float32 end, element ${j}`);
    });
  }
});

Deno.test("UniPcScheduler corrects from the second step on", () => {
  const schedule = new UniPcScheduler(wan).setTimesteps(4);
  const terms = [0, 1, 2, 3].map((i) => schedule.step(i)[0]!.terms.length);
  assert.deepEqual(terms, [1, 4, 5, 5]);
});

Deno.test("UniPcScheduler.setTimesteps() refuses a step that leads nowhere", () => {
  const sigmas = [1, 0.5, 0.5, 0.25];
  assert.throws(() => new UniPcScheduler(wan).setTimesteps(4, { sigmas }), /divides by zero/);
});

Deno.test("UniPcScheduler.setTimesteps() needs mu under dynamic shifting", () => {
  const scheduler = new UniPcScheduler({ ...wan, use_dynamic_shifting: true });
  assert.ok(scheduler.usesDynamicShifting);
  assert.throws(() => scheduler.setTimesteps(4), /mu is not given/);
});

Deno.test("UniPcScheduler refuses a shift_terminal that one step cannot reach", () => {
  const scheduler = new UniPcScheduler({ ...wan, shift_terminal: 0.02 });
  assert.throws(() => scheduler.setTimesteps(1), /shift_terminal/);
});

Deno.test("UniPcScheduler refuses what it does not implement, by name", () => {
  const cases: [string, unknown][] = [
    ["prediction_type", "epsilon"],
    ["use_flow_sigmas", false],
    ["predict_x0", false],
    ["thresholding", true],
    ["use_karras_sigmas", true],
    ["use_exponential_sigmas", true],
    ["use_beta_sigmas", true],
    ["solver_p", {}],
    ["solver_order", 3],
    ["solver_type", "bh1"],
    ["disable_corrector", [0]],
    ["lower_order_final", false],
    ["final_sigmas_type", "one"],
  ];
  for (const [key, value] of cases) {
    assert.throws(() => new UniPcScheduler({ ...wan, [key]: value }), new RegExp(key));
  }
});
