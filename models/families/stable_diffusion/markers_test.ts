import assert from "node:assert/strict";
import { type MemoryTensor, memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { createScheduler } from "../../schedulers/mod.ts";
import { SD_FILES } from "./layouts.ts";
import { BETAS } from "./markers.ts";

const EMPTY: MemoryTensor = { format: "F16", shape: [0], bytes: new Uint8Array(0) };
const UNET = { addition_embed_type: "text_time", cross_attention_dim: 2048 };

function numbers(...values: number[]): MemoryTensor {
  const bytes = new Uint8Array(new Float32Array(values).buffer);
  return { format: "F32", shape: [values.length], bytes };
}

function signals(last: number, count = 1000): number[] {
  const [start, end] = [Math.sqrt(BETAS.beta_start), Math.sqrt(last)];
  let product = 1;
  return Array.from(
    { length: count },
    (_, i) => product *= 1 - (start + (end - start) * i / (count - 1)) ** 2,
  );
}

function defaultsOf(tensors: Readonly<Record<string, MemoryTensor>>) {
  return SD_FILES.defaults(UNET, "model.safetensors", false, memoryTensors(tensors));
}

Deno.test("defaults() reads from a file's markers what it predicts, and its noise schedule", () => {
  const own = SD_FILES.defaults(UNET, "model.safetensors").scheduler;
  const zero = { ...own, rescale_betas_zero_snr: true, timestep_spacing: "trailing" };
  const cases: [Parameters<typeof defaultsOf>[0], object][] = [
    [{}, own],
    [{ v_pred: EMPTY }, { ...own, prediction_type: "v_prediction" }],
    [{ v_pred: EMPTY, ztsnr: EMPTY }, { ...zero, prediction_type: "v_prediction" }],
    [{ ztsnr: EMPTY }, own],
    [{ alphas_cumprod: numbers(...signals(BETAS.beta_end)) }, own],
    [{ alphas_cumprod: numbers(...signals(BETAS.beta_end).with(-1, 0)) }, zero],
  ];
  for (const [tensors, expected] of cases) {
    assert.deepEqual(defaultsOf(tensors).scheduler, expected, Object.keys(tensors).join());
  }
  const { scheduler } = defaultsOf({ alphas_cumprod: numbers(...signals(0.02)) });
  const betas = scheduler["trained_betas"] as number[];
  assert.ok(Math.abs(betas[999]! - 0.02) < 1e-4);
  const { sigmas } = createScheduler(scheduler).setTimesteps(1, { sampler: "euler" });
  assert.ok(Math.abs(sigmas[0]! - Math.sqrt(1 / signals(0.02)[1]! - 1)) < 1e-3);
});

Deno.test("defaults() reads models in EDM's form: CosXL, and Playground v2.5 with its autoencoder's statistics", () => {
  const cosxl = defaultsOf({
    "edm_vpred.sigma_max": numbers(120),
    "edm_vpred.sigma_min": numbers(0.002),
  }).scheduler;
  assert.deepEqual(
    [cosxl["_class_name"], cosxl["sigma_max"], cosxl["sigma_data"], cosxl["prediction_type"]],
    ["EDMEulerScheduler", 120, 1, "v_prediction"],
  );
  const { sigmas } = createScheduler(cosxl).setTimesteps(2);
  assert.deepEqual([...sigmas].map((sigma) => Math.round(1000 * sigma)), [120_000, 2, 0]);
  const playground = defaultsOf({
    edm_mean: numbers(-1.5, 2, -1.25, 2.5),
    edm_std: numbers(8, 6, 4, 5),
  });
  assert.equal(playground.scheduler["_class_name"], "EDMDPMSolverMultistepScheduler");
  assert.deepEqual(playground.vae, {
    scaling_factor: 0.5,
    latents_mean: [-1.5, 2, -1.25, 2.5],
    latents_std: [8, 6, 4, 5],
  });
});
