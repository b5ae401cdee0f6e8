/** Steps of the quality high that take the velocity of the step before: with Euler's method both are one longer step. */
import assert from "node:assert/strict";
import { openPipeline, type PipelineRequest } from "../models/mod.ts";
import { reusingSteps } from "../models/pipeline/reused_steps.ts";
import { withChroma, withComposed } from "./support/composed.ts";
import { assertClose, Golden } from "./support/golden.ts";
import { openTestDevice } from "./support/model_run.ts";

/** Models that are guided in different ways, and whose shift leaves the same steps close to each other. */
const MODELS = [
  "z_image/pipeline",
  "qwen_image/pipeline",
  "lumina2/pipeline",
  "longcat_image/pipeline",
  "hunyuan_video_15/pipeline",
  "ltx2/pipeline23",
];
/** The fewest of which some are used again. */
const STEPS = 16;
const SIGMAS = Array.from({ length: STEPS }, (_, i) => 1 - i / STEPS);

async function check(folder: string): Promise<void> {
  const device = await openTestDevice();
  using pipeline = await openPipeline(folder);
  try {
    await pipeline.load(device);
    const { supportedTasks, leastSide: side = 32 } = pipeline.info;
    const request: PipelineRequest = {
      ...{ prompt: "a red cat", negativePrompt: "a dog", seed: 3, guidanceScale: 2 },
      ...{ width: side, height: side, numFrames: 1, sampler: "euler", sigmas: SIGMAS },
      task: supportedTasks.includes("T2I") ? "T2I" : "T2V",
      numInferenceSteps: STEPS,
    };
    const high = await pipeline.generate({ ...request, quality: "high" });
    const reused = reusingSteps(Float64Array.from(SIGMAS, (sigma) => 1000 * sigma));
    const sigmas = SIGMAS.filter((_, i) => !reused.includes(i));
    assert.ok(sigmas.length < STEPS);
    const longer = await pipeline.generate({
      ...request,
      ...{ sigmas, numInferenceSteps: sigmas.length },
    });
    const [actual, expected] = [high, longer].map(({ latents: data }) => ({
      shape: [data.length],
      data,
    }));
    assertClose("latents", actual!, expected!, 1e-4);
  } finally {
    device.destroy();
  }
}

Deno.test("the quality high makes of two steps of a flow a longer one", () => withChroma(check));

Deno.test({
  name: "the quality high makes of two steps a longer one, however it is guided; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async (t) => {
    for (const model of MODELS) {
      await t.step(model, () => withComposed([new Golden(model)], check));
    }
  },
});
