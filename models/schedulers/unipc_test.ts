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
    // The float32 reference loses digits itself, at order 3 most.
    const bound = config["solver_order"] === 3 ? 1e-5 : 1e-6;
    float32.forEach((expected, j) => {
      close(sample[j]!, expected, bound, `${name}, ${steps} steps: float32 end, element ${j}`);
    });
  }
});

Deno.test("UniPcScheduler corrects from the second step on, and not after a disabled one", () => {
  const targets = (config: Record<string, unknown>): number[] => {
    const schedule = new UniPcScheduler({ ...wan, ...config }).setTimesteps(4);
    return [0, 1, 2, 3].map((i) => schedule.step(i)[0]!.terms.length);
  };
  assert.deepEqual(targets({}), [1, 4, 5, 5]);
  assert.deepEqual(targets({ disable_corrector: [1] }), [1, 4, 1, 5]);
});

Deno.test("UniPcScheduler with bh1 ends on the last x0, where diffusers gives NaN", () => {
  const schedule = new UniPcScheduler({ ...wan, solver_type: "bh1" }).setTimesteps(3);
  const end = schedule.step(2)[2]!;
  assert.deepEqual(end.terms.map(({ scale }) => scale), [0, 1]);
});

Deno.test("UniPcScheduler.setTimesteps() refuses a last step of order 2 down to sigma 0", () => {
  const scheduler = new UniPcScheduler({ ...wan, lower_order_final: false });
  assert.throws(() => scheduler.setTimesteps(4), /order 2 from sigma .* to 0 divides by zero/);
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
    ["solver_order", 0],
    ["solver_type", "rk4"],
    ["disable_corrector", [0.5]],
    ["final_sigmas_type", "one"],
  ];
  for (const [key, value] of cases) {
    assert.throws(() => new UniPcScheduler({ ...wan, [key]: value }), new RegExp(key));
  }
});
