import assert from "node:assert/strict";
import { close, follow, schedulerGolden } from "../../tests/support/scheduler_golden.ts";
import { createScheduler, NOISE_SCHEDULES, SAMPLERS } from "./mod.ts";

const golden = schedulerGolden<{ readonly end: readonly number[] }>("k_samplers");

Deno.test("setTimesteps() follows the formulas of every sampler on levels with a name, in float64", () => {
  for (const { name, config, steps, options, sigmas, end } of golden.cases) {
    const schedule = createScheduler(config).setTimesteps(steps, options);
    const label = `${name}, ${steps} steps`;
    if (options.sampler === "euler") {
      assert.equal(schedule.sigmas.length, sigmas.length, label);
      sigmas.forEach((sigma, i) => close(schedule.sigmas[i]!, sigma, 1e-9, `${label}: level ${i}`));
    }
    const sample = Float64Array.from(golden.start, (noise) => schedule.noiseScale * noise);
    follow(schedule, sample);
    end.forEach((value, j) => close(sample[j]!, value, 1e-9, `${label}: element ${j}`));
  }
});

const STABLE_DIFFUSION = {
  _class_name: "EulerDiscreteScheduler",
  ...{ beta_start: 0.00085, beta_end: 0.012, beta_schedule: "scaled_linear" },
};

Deno.test("setTimesteps() gives the levels that ComfyUI gives Stable Diffusion", () => {
  const expected = {
    normal: [14.6146, 4.0861, 1.6156, 0.6951, 0.0292, 0],
    simple: [14.6146, 5.0878, 2.2765, 1.1606, 0.5693, 0],
    sgm_uniform: [14.6146, 5.0924, 2.2797, 1.1629, 0.5712, 0],
    ddim_uniform: [5.1344, 2.2929, 1.1682, 0.5741, 0.0413, 0],
    karras: [14.6146, 4.7965, 1.2741, 0.2479, 0.0292, 0],
    exponential: [14.6146, 3.089, 0.6529, 0.138, 0.0292, 0],
    beta: [14.6146, 7.3718, 2.6152, 1.0273, 0.3955, 0],
    kl_optimal: [14.6146, 2.1427, 0.9616, 0.4198, 0.0292, 0],
    align_your_steps: [14.6146, 3.7682, 1.3405, 0.5551, 0.2332, 0],
  };
  const scheduler = createScheduler({ ...STABLE_DIFFUSION, timestep_spacing: "leading" });
  for (const name of NOISE_SCHEDULES) {
    const schedule = scheduler.setTimesteps(5, { scheduler: name, aligned: "sdxl" });
    expected[name].forEach((sigma, i) =>
      close(schedule.sigmas[i]!, sigma, 1e-4, `${name}: level ${i}`)
    );
    const [first] = expected[name] as [number];
    const noise = name === "ddim_uniform" ? first : Math.hypot(first, 1);
    close(schedule.noiseScale, noise, 1e-4, name);
  }
});

Deno.test("setTimesteps() refuses aligned steps for a model that has none", () => {
  const scheduler = createScheduler(STABLE_DIFFUSION);
  const aligned = { scheduler: "align_your_steps" } as const;
  assert.throws(() => scheduler.setTimesteps(5, aligned), /no steps were aligned for this model/);
});

Deno.test("setTimesteps() takes the samplers and schedulers that the model lists, and names them when it refuses others", () => {
  const flow = createScheduler({ _class_name: "FlowMatchEulerDiscreteScheduler" });
  for (const scheduler of [flow, createScheduler(STABLE_DIFFUSION)]) {
    const { samplers, schedulers } = scheduler.choices;
    for (const sampler of SAMPLERS) {
      const make = () => scheduler.setTimesteps(3, { sampler });
      if (samplers.includes(sampler)) assert.ok(make().timesteps.length >= 3, sampler);
      else assert.throws(make, new RegExp(`${sampler} with this model: it takes ${samplers[0]}`));
    }
    for (const name of NOISE_SCHEDULES) {
      const make = () => scheduler.setTimesteps(3, { scheduler: name, aligned: "sd1" });
      if (schedulers.includes(name)) assert.equal(make().timesteps.length, 3, name);
      else assert.throws(make, new RegExp(`${name} with this model: it takes normal, `));
    }
  }
});

Deno.test("setTimesteps() begins a run in the middle as the whole run goes on, for samplers without memory", () => {
  const scheduler = createScheduler(STABLE_DIFFUSION);
  for (const sampler of ["euler_ancestral", "dpm_2", "dpmpp_sde", "lcm"] as const) {
    const whole = scheduler.setTimesteps(6, { sampler });
    const part = scheduler.setTimesteps(6, { sampler, start: 2 });
    const first = whole.timesteps.length - part.timesteps.length;
    assert.deepEqual(part.sigmas, whole.sigmas.slice(first), sampler);
    part.timesteps.forEach((_, i) =>
      assert.deepEqual(part.step(i), whole.step(first + i), sampler)
    );
  }
});
