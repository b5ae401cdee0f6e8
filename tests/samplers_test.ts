/** Every sampler and every spacing in a small pipeline of each family; with DENOISE_SLOW. */
import assert from "node:assert/strict";
import { openPipeline, type PipelineRequest } from "../models/mod.ts";
import { DMD_STEPS } from "../models/schedulers/names.ts";
import { withChroma, withComposed } from "./support/composed.ts";
import { Golden } from "./support/golden.ts";
import { openTestDevice } from "./support/model_run.ts";

const MODELS = [
  "z_image/pipeline",
  "qwen_image/pipeline",
  "krea2/pipeline",
  "qwen_image_21/pipeline",
  "anima/pipeline",
  "ernie_image/pipeline",
  "flux1/dev",
  "flux2/pipeline",
  "flux2/dev",
  "flux3/pipeline",
  "ideogram4/pipeline",
  "lumina2/pipeline",
  "ovis_image/pipeline",
  "auraflow/pipeline",
  "longcat_image/pipeline",
  "wan/pipeline-ti2v",
  "hunyuan_video_15/pipeline",
  "ltx2/pipeline23",
  "stable_diffusion/pipeline",
  "stable_diffusion_3/pipeline",
];

type Sampling = Pick<PipelineRequest, "sampler" | "scheduler" | "sigmas">;

/** Samplers that another one may equal: that of the model, or one with two names. */
const SAME: readonly (string | undefined)[] = ["euler", "ddim", "ddpm", "uni_pc", "pndm"];

async function check(folder: string): Promise<void> {
  const device = await openTestDevice();
  using pipeline = await openPipeline(folder);
  try {
    await pipeline.load(device);
    const latents = new Map<string, string>();
    const { sampling: { samplers, schedulers }, supportedTasks, leastSide: side = 32 } =
      pipeline.info;
    const task = supportedTasks.includes("T2I") ? "T2I" : "T2V";
    const samplings: readonly Sampling[] = [
      ...samplers.map((sampler) => ({ sampler })),
      ...schedulers.map((scheduler) => ({ scheduler })),
      { sigmas: [1, 0.7, 0.4, 0.1] },
    ];
    for (const sampling of samplings) {
      const name = JSON.stringify(sampling);
      const made = await pipeline.generate({
        ...{ prompt: "a red cat", negativePrompt: "", seed: 3 },
        ...{ task, width: side, height: side, numFrames: 1 },
        ...{ numInferenceSteps: sampling.sampler === "dmd" ? DMD_STEPS : 4 },
        ...{ guidanceScale: 1, ...sampling },
      });
      assert.ok(made.latents.every(Number.isFinite), name);
      // Stable Diffusion 3 has no sigmas of its own, and so those of this spacing.
      const isOwn = sampling.scheduler === "normal" &&
        pipeline.info.className === "StableDiffusion3Pipeline";
      if (SAME.includes(sampling.sampler) || isOwn) continue;
      const text = made.latents.join();
      assert.equal(latents.get(text), undefined, `${name} is no other than ${latents.get(text)}`);
      latents.set(text, name);
    }
  } finally {
    device.destroy();
  }
}

Deno.test({
  name:
    "every family takes every sampler and every spacing of noise levels, each another; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async (t) => {
    for (const model of MODELS) {
      await t.step(model, () => withComposed([new Golden(model)], check));
    }
    await t.step("chroma", () => withChroma(check));
  },
});
