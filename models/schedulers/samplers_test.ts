import assert from "node:assert/strict";
import { close, model, schedulerGolden } from "../../tests/support/scheduler_golden.ts";
import { createScheduler } from "./mod.ts";
import { applyStep } from "../../tests/support/apply_step.ts";

const golden = schedulerGolden<{ readonly samples: readonly (readonly number[])[] }>("samplers");

Deno.test("setTimesteps() gives the noise levels of the reference for every sampler and spacing", () => {
  for (const { name, config, steps, options, timesteps, sigmas } of golden.cases) {
    const schedule = createScheduler(config).setTimesteps(steps, options);
    const label = `${name}, ${steps} steps`;
    assert.equal(schedule.sigmas.length, sigmas.length, label);
    sigmas.forEach((sigma, i) => close(schedule.sigmas[i]!, sigma, 2e-7, `${label}: level ${i}`));
    // The timesteps of the reference's UniPC are whole numbers; here they are the model's own.
    const bound = options.sampler === "uni_pc" ? 1e-2 : 2e-7;
    timesteps.forEach((time, i) =>
      close(schedule.timesteps[i]!, time, bound, `${label}: time ${i}`)
    );
  }
});

Deno.test("setTimesteps() gives the trajectory of the reference for every sampler and spacing", () => {
  for (const { name, config, steps, options, samples, noise } of golden.cases) {
    const schedule = createScheduler(config).setTimesteps(steps, options);
    const sample = Float64Array.from(golden.start);
    const tensors: Record<string, Float64Array> = { sample };
    // NaN in every slot shows that none is read before it is written.
    for (let slot = 0; slot < schedule.history; slot++) {
      tensors[`history${slot}`] = new Float64Array(sample.length).fill(NaN);
    }
    assert.equal(schedule.timesteps.length, samples.length);
    for (let i = 0; i < schedule.timesteps.length; i++) {
      tensors["output"] = model(sample, i);
      if (noise) tensors["noise"] = Float64Array.from(noise[i]!);
      applyStep(schedule.step(i), tensors);
      samples[i]!.forEach((expected, j) => {
        close(sample[j]!, expected, 5e-6, `${name}, ${steps} steps: step ${i}, element ${j}`);
      });
    }
  }
});

Deno.test("setTimesteps() refuses other noise levels for dmd than its own", () => {
  for (const name of ["FlowMatchEulerDiscreteScheduler", "UniPCMultistepScheduler"]) {
    const scheduler = createScheduler({
      ...{ _class_name: name, prediction_type: "flow_prediction", use_flow_sigmas: true },
    });
    assert.equal(scheduler.setTimesteps(3, { sampler: "dmd" }).timesteps[1], 757);
    assert.throws(() => scheduler.setTimesteps(4, { sampler: "dmd" }), /dmd in 4 steps: it has 3/);
    const karras = { sampler: "dmd", scheduler: "karras" } as const;
    assert.throws(() => scheduler.setTimesteps(3, karras), /dmd and scheduler karras/);
  }
});

Deno.test("setTimesteps() refuses levels that coincide where a sampler divides by their distance", () => {
  const scheduler = createScheduler({ _class_name: "FlowMatchEulerDiscreteScheduler" });
  const options = { sampler: "dpmpp_2m", sigmas: [0.5, 0.5, 0.4, 0.3] } as const;
  assert.throws(
    () => scheduler.setTimesteps(4, options),
    /from sigma 0.5 to 0.4.* divides by zero/,
  );
});

Deno.test("a model of UniPC takes other samplers on its own noise levels and timesteps", () => {
  const scheduler = createScheduler({
    ...{ _class_name: "UniPCMultistepScheduler", flow_shift: 5 },
    ...{ prediction_type: "flow_prediction", use_flow_sigmas: true },
  });
  const own = scheduler.setTimesteps(8);
  const euler = scheduler.setTimesteps(8, { sampler: "euler" });
  assert.deepEqual([euler.sigmas, euler.timesteps], [own.sigmas, own.timesteps]);
  assert.equal(scheduler.setTimesteps(8, { sampler: "heun" }).timesteps.length, 15);
  const karras = scheduler.setTimesteps(8, { scheduler: "karras" });
  assert.ok(karras.sigmas[4]! < own.sigmas[4]!);
  assert.equal(karras.history, own.history);
});
