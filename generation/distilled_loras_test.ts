import { strict as assert } from "node:assert";
import { NOISE_SCHEDULES, SAMPLERS } from "../models/schedulers/names.ts";
import { FAKE_INFO } from "../tests/fakes/model_info.ts";
import { distilledDefaults, withDistilled } from "./distilled_loras.ts";
import { completeSettings } from "./settings.ts";

const DIFFUSION = {
  ...FAKE_INFO,
  optionalSettings: ["sampler", "scheduler", "sigmas"] as const,
  sampling: { samplers: SAMPLERS, schedulers: NOISE_SCHEDULES, maxSigma: 14.6 },
};

const PUBLISHED = {
  "latent-consistency/lcm-lora-sdv1-5": ["lcm", undefined, 4, 1],
  "/c/models--latent-consistency--lcm-lora-sdxl/snapshots/0123456789012345678901234567890123456789/pytorch_lora_weights.safetensors":
    ["lcm", undefined, 4, 1],
  "LCM_LoRA_Weights_SD15.safetensors": ["lcm", undefined, 4, 1],
  "ByteDance/SDXL-Lightning:sdxl_lightning_8step_lora.safetensors": ["euler", "sgm_uniform", 8, 1],
  "sdxl_lightning_2step_lora.safetensors": ["euler", "sgm_uniform", 2, 1],
  "ByteDance/Hyper-SD:Hyper-SD15-4steps-lora.safetensors": ["ddim", "sgm_uniform", 4, 1],
  "Hyper-SDXL-8steps-lora.safetensors": ["ddim", "sgm_uniform", 8, 1],
  "Hyper-SD15-12steps-CFG-lora.safetensors": ["ddim", "sgm_uniform", 12, undefined],
  "Hyper-SDXL-1step-lora.safetensors": ["tcd", undefined, 1, 1],
  "h1t/TCD-SDXL-LoRA": ["tcd", undefined, 4, 1],
  "tianweiy/DMD2:dmd2_sdxl_4step_lora_fp16.safetensors": ["lcm", "sgm_uniform", 4, 1],
} as const;

Deno.test("distilledDefaults() knows the published LoRAs for few steps by their names, and no others", () => {
  for (
    const [path, [sampler, scheduler, numInferenceSteps, guidanceScale]] of Object.entries(
      PUBLISHED,
    )
  ) {
    const { defaults } = distilledDefaults([{ path }], DIFFUSION) ?? {};
    assert.deepEqual(
      [
        defaults?.sampler,
        defaults?.scheduler,
        defaults?.numInferenceSteps,
        defaults?.guidanceScale,
      ],
      [sampler, scheduler, numInferenceSteps, guidanceScale],
      path,
    );
  }
  for (
    const path of [
      "lightning_effect.safetensors",
      "alchemist.safetensors",
      "/lcm/style.pt",
      "hyper-detail",
      "Hyper-SD15-0steps-lora.safetensors",
    ]
  ) {
    assert.equal(distilledDefaults([{ path }], DIFFUSION), undefined, path);
  }
  const lcm = { path: "lcm.safetensors" };
  assert.equal(distilledDefaults([{ ...lcm, strength: 0 }], DIFFUSION), undefined);
  assert.equal(distilledDefaults([lcm], FAKE_INFO), undefined);
  assert.equal(distilledDefaults([{ path: "style.pt" }, lcm], DIFFUSION)?.name, "lcm.safetensors");
});

Deno.test("withDistilled() changes defaults alone, and a given sampler comes without the schedule of the LoRA's", () => {
  const settingsOf = (path: string, given: Record<string, unknown>) =>
    completeSettings(given, "T2I", withDistilled(DIFFUSION, [{ path }], given), (name) => name)
      .settings;
  const some = (path: string, given: Record<string, unknown> = {}) => {
    const { sampler, scheduler, numInferenceSteps, guidanceScale } = settingsOf(path, given);
    return [sampler, scheduler, numInferenceSteps, guidanceScale];
  };
  const hyper = "Hyper-SD15-4steps-lora.safetensors";
  assert.deepEqual(some(hyper), ["ddim", "sgm_uniform", 4, 1]);
  assert.deepEqual(some(hyper, { sampler: "euler", numInferenceSteps: 6 }), [
    "euler",
    undefined,
    6,
    1,
  ]);
  assert.deepEqual(some(hyper, { scheduler: "karras", guidanceScale: 2 }), [
    "ddim",
    "karras",
    4,
    2,
  ]);
  assert.deepEqual(some(hyper, { sigmas: [14, 7, 1] }), ["ddim", undefined, 3, 1]);
  assert.deepEqual(some("tcd.safetensors", { scheduler: "karras" }), ["lcm", "karras", 4, 1]);
  assert.deepEqual(some("Hyper-SD15-8steps-CFG-lora.safetensors"), ["ddim", "sgm_uniform", 8, 3.5]);
  assert.deepEqual(some("style.safetensors"), [undefined, undefined, 4, 3.5]);
});
