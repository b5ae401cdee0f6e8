import assert from "node:assert/strict";
import { applyStep } from "../../tests/support/apply_step.ts";
import { close } from "../../tests/support/scheduler_golden.ts";
import { createScheduler, DiffusionScheduler, type Schedule, type ScheduleOptions } from "./mod.ts";
import { readsNoise } from "./schedule.ts";

interface Case {
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly steps: number;
  readonly options: ScheduleOptions;
  readonly timesteps: readonly number[];
  /** What the network is given at each step. */
  readonly inputs: readonly (readonly number[])[];
  readonly end: readonly number[];
}

const golden = JSON.parse(
  Deno.readTextFileSync(new URL("../../tests/goldens/schedulers/diffusion.json", import.meta.url)),
) as {
  readonly start: readonly number[];
  readonly image: readonly number[];
  readonly cases: readonly Case[];
};

const STABLE_DIFFUSION = {
  ...{ beta_start: 0.00085, beta_end: 0.012, beta_schedule: "scaled_linear", steps_offset: 1 },
  ...{ clip_sample: false, skip_prk_steps: true },
};

function opened(name: string, config: object = {}) {
  return createScheduler({ _class_name: name, ...STABLE_DIFFUSION, ...config });
}

/** The network and the noise of `tools/reference/diffusion_schedulers.py`. */
function output(input: Float64Array, timestep: number): Float64Array {
  return input.map((x, j) => 0.4 * x + Math.cos(0.01 * timestep + 0.7 * j));
}

function noiseOf(draw: number): Float64Array {
  return Float64Array.from(golden.start, (_, j) => Math.sin(1.7 * draw + 0.9 * j + 0.3));
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

function follow(
  schedule: Schedule,
  sample: Float64Array,
  seen: (i: number, input: Float64Array) => void,
) {
  const tensors: Record<string, Float64Array> = { sample };
  // NaN in every slot shows that none is read before it is written.
  for (let slot = 0; slot < schedule.history; slot++) {
    tensors[`history${slot}`] = new Float64Array(sample.length).fill(NaN);
  }
  let draws = 0;
  for (let i = 0; i < schedule.timesteps.length; i++) {
    const input = sample.map((x) => x * schedule.inputScale(i));
    seen(i, input);
    tensors["output"] = output(input, schedule.timesteps[i]!);
    if (readsNoise(schedule.step(i))) tensors["noise"] = noiseOf(draws++);
    applyStep(schedule.step(i), tensors);
  }
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

Deno.test("DiffusionScheduler spaces the levels of a request over the whole table, as ComfyUI does", () => {
  const expected = {
    simple: [14.6146, 5.0878, 2.2765, 1.1606, 0.5693, 0],
    sgm_uniform: [14.6146, 5.0924, 2.2797, 1.1629, 0.5712, 0],
    karras: [14.6146, 4.7965, 1.2741, 0.2479, 0.0292, 0],
    exponential: [14.6146, 3.089, 0.6529, 0.138, 0.0292, 0],
    beta: [14.6146, 7.3718, 2.6152, 1.0273, 0.3955, 0],
  } as const;
  const scheduler = opened("EulerDiscreteScheduler", { timestep_spacing: "leading" });
  for (const [name, sigmas] of Object.entries(expected)) {
    const schedule = scheduler.setTimesteps(5, { scheduler: name as keyof typeof expected });
    sigmas.forEach((sigma, i) => close(schedule.sigmas[i]!, sigma, 1e-4, `${name}: level ${i}`));
    close(schedule.noiseScale, Math.hypot(14.6146, 1), 1e-4, name);
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
  const karras = { scheduler: "karras" } as const;
  assert.throws(() => scheduler.setTimesteps(4, karras), /pndm .* has timesteps of its own/);
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
    ["PNDMScheduler", "skip_prk_steps", false],
    ["PNDMScheduler", "prediction_type", "sample"],
  ];
  for (const [className, key, value] of cases) {
    assert.throws(() => opened(className, { [key]: value }), new RegExp(key), className);
  }
  const both = { use_karras_sigmas: true, use_beta_sigmas: true };
  assert.throws(() => opened("EulerDiscreteScheduler", both), /only one may be true/);
});
