import assert from "node:assert/strict";
import { close, follow, schedulerGolden } from "../../tests/support/scheduler_golden.ts";
import { createScheduler, DiffusionScheduler, EdmScheduler, type Schedule } from "./mod.ts";

const golden = schedulerGolden<{
  /** What the network is given at each step. */
  readonly inputs: readonly (readonly number[])[];
  readonly end: readonly number[];
}, { readonly image: readonly number[] }>("diffusion");

const STABLE_DIFFUSION = {
  ...{ beta_start: 0.00085, beta_end: 0.012, beta_schedule: "scaled_linear", steps_offset: 1 },
  ...{ clip_sample: false, skip_prk_steps: true },
};

function opened(name: string, config: object = {}) {
  return createScheduler({ _class_name: name, ...STABLE_DIFFUSION, ...config });
}

function begun(schedule: Schedule, fromImage: boolean): Float64Array {
  const sigma = schedule.sigmas[0]!;
  return Float64Array.from(
    golden.start,
    (noise, j) =>
      fromImage
        ? schedule.signal(sigma) * golden.image[j]! + sigma * noise
        : schedule.noiseScale * noise,
  );
}

Deno.test("DiffusionScheduler gives the network what every class of diffusers gives it, in float64", () => {
  for (const { name, config, steps, options, timesteps, inputs, end } of golden.cases) {
    const schedule = createScheduler(config).setTimesteps(steps, options);
    const label = `${name}, ${steps} steps`;
    assert.equal(schedule.timesteps.length, timesteps.length, label);
    timesteps.forEach((time, i) =>
      close(schedule.timesteps[i]!, time, 2e-7, `${label}: time ${i}`)
    );
    // PyTorch's square roots of float32, by which betas are rescaled, are not all rounded to the nearest.
    const bound = config["rescale_betas_zero_snr"] ? 1e-6 : 1e-9;
    const sample = begun(schedule, options.start !== undefined);
    const check = (values: Float64Array, expected: readonly number[], at: string) =>
      expected.forEach((value, j) =>
        close(values[j]!, value, bound, `${label}: ${at}, element ${j}`)
      );
    follow(schedule, sample, (i, input) => check(input, inputs[i]!, `input of step ${i}`));
    check(sample, end, "end");
  }
});

Deno.test("DiffusionScheduler takes the levels of a request, and finds their timesteps", () => {
  const own = opened("EulerDiscreteScheduler", { timestep_spacing: "trailing" }).setTimesteps(4);
  const schedule = opened("EulerDiscreteScheduler")
    .setTimesteps(4, { sigmas: [...own.sigmas.slice(0, 4)] });
  assert.deepEqual(schedule.sigmas, own.sigmas);
  own.timesteps.forEach((time, i) => close(schedule.timesteps[i]!, time, 1e-9, `time ${i}`));
  const low = opened("EulerDiscreteScheduler").setTimesteps(2, { sigmas: [3, 1] });
  assert.equal(low.noiseScale, 3);
});

Deno.test("DiffusionScheduler refuses options that no diffusion model has", () => {
  const scheduler = opened("PNDMScheduler");
  assert.ok(scheduler instanceof DiffusionScheduler);
  assert.throws(() => scheduler.setTimesteps(4, { shift: 3 }), /only rectified flows have a shift/);
  assert.throws(() => scheduler.setTimesteps(1001), /has 1000 timesteps/);
  assert.throws(() => scheduler.setTimesteps(3, { sampler: "dmd" }), /dmd .* it takes euler, /);
  const karras = { sampler: "pndm", scheduler: "karras" } as const;
  assert.throws(() => scheduler.setTimesteps(4, karras), /pndm .* timesteps of its own.* use lms/);
});

Deno.test("DiffusionScheduler takes the nearest sampler on levels that its own does not have", () => {
  const nearest = { PNDMScheduler: "lms", TCDScheduler: "lcm", EulerDiscreteScheduler: "euler" };
  for (const [name, sampler] of Object.entries(nearest)) {
    const scheduler = opened(name);
    const [usual, named] = [undefined, sampler as "lms"].map((sampler) =>
      scheduler.setTimesteps(5, { scheduler: "karras", sampler })
    );
    usual!.timesteps.forEach((_, i) => assert.deepEqual(usual!.step(i), named!.step(i), name));
  }
});

Deno.test("DiffusionScheduler refuses more steps than a model was distilled for", () => {
  const scheduler = opened("TCDScheduler");
  assert.throws(
    () => scheduler.setTimesteps(51),
    /51 steps: the model was distilled for 50 at most/,
  );
});

Deno.test("EdmScheduler takes samplers on any levels, and refuses what it does not implement", () => {
  const scheduler = opened("EDMEulerScheduler", { sigma_max: 120 });
  assert.ok(scheduler instanceof EdmScheduler && scheduler instanceof DiffusionScheduler);
  const { samplers, schedulers, maxSigma } = scheduler.choices;
  assert.equal(maxSigma, 120);
  for (const sampler of samplers) assert.ok(scheduler.setTimesteps(4, { sampler }), sampler);
  for (const name of schedulers) {
    const { sigmas, timesteps } = scheduler.setTimesteps(4, { scheduler: name });
    timesteps.forEach((time, i) => close(time, Math.log(sigmas[i]!) / 4, 1e-6, `${name} ${i}`));
  }
  const pndm = { sampler: "pndm" } as const;
  assert.throws(() => scheduler.setTimesteps(4, pndm), /pndm with this model: it takes euler, /);
  const refused = { rho: 5, sigma_schedule: "beta", prediction_type: "sample", sigma_min: 200 };
  for (const [key, value] of Object.entries(refused)) {
    assert.throws(() => opened("EDMEulerScheduler", { [key]: value }), TypeError, key);
  }
});

Deno.test("DiffusionScheduler refuses a configuration that it cannot follow, by the key", () => {
  const cases: [className: string, key: string, value: unknown][] = [
    ["DDIMScheduler", "clip_sample", true],
    ["DDIMScheduler", "thresholding", true],
    ["DDIMScheduler", "timestep_spacing", "log"],
    ["EulerDiscreteScheduler", "timestep_type", "continuous"],
    ["EulerDiscreteScheduler", "final_sigmas_type", "one"],
    ["EulerDiscreteScheduler", "interpolation_type", "cubic"],
    ["EulerDiscreteScheduler", "prediction_type", "flow"],
    ["EulerDiscreteScheduler", "beta_schedule", "sigmoid"],
    ["EulerDiscreteScheduler", "trained_betas", [0.1, 0.2]],
    ["DDPMScheduler", "clip_sample", true],
    ["DDPMScheduler", "variance_type", "learned"],
    ["DPMSolverMultistepScheduler", "algorithm_type", "dpmsolver"],
    ["DPMSolverMultistepScheduler", "solver_order", 4],
    ["DEISMultistepScheduler", "solver_order", 1.5],
    ["DEISMultistepScheduler", "algorithm_type", "sde-dpmsolver++"],
    ["DPMSolverMultistepScheduler", "use_lu_lambdas", true],
    ["KDPM2DiscreteScheduler", "prediction_type", "sample"],
    ["LCMScheduler", "original_inference_steps", 0],
    ["UniPCMultistepScheduler", "predict_x0", false],
    ["PNDMScheduler", "skip_prk_steps", false],
    ["PNDMScheduler", "prediction_type", "sample"],
  ];
  for (const [className, key, value] of cases) {
    assert.throws(() => opened(className, { [key]: value }), new RegExp(key), className);
  }
  const both = { use_karras_sigmas: true, use_beta_sigmas: true };
  assert.throws(() => opened("EulerDiscreteScheduler", both), /only one may be true/);
});
