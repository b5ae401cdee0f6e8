/** Whole Lumina-Image 2.0 pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { DIFFUSERS_DIALECTS, ImagePipelineCases, imageRequest } from "../support/image_pipeline.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

const cases = new ImagePipelineCases("lumina2/pipeline", (golden, call) => {
  const { system_prompt: systemPrompt, cfg_trunc_ratio: end, cfg_normalization: isNormed } =
    call.args;
  return {
    ...imageRequest(golden, call),
    ...(systemPrompt !== undefined && { systemPrompt: systemPrompt as string }),
    ...(end !== undefined && { guidanceEnd: end as number }),
    ...(isNormed === false && { guidanceRescale: 0 }),
  };
});
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

Deno.test("Lumina2Pipeline.generate() gives the reference's latents and images, guided in its own way and with a LoRA in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.deepEqual([sizeMultiple, defaults.guidanceScale], [4, 4]);
    await cases.check(t, pipeline, ["truncated"]);
    await cases.checkDialects(pipeline, DIFFUSERS_DIALECTS);
    await cases.checkAdapted(t, pipeline);
    await cases.checkRefusals(pipeline, "adapted", [
      [{ width: 42 }, /the width must be a multiple of 4, for example 44/],
      [{ width: 4096 }, /the model has positions for 256x256; ask for a smaller size/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes one/],
      [
        { prompt: "cat ".repeat(400), maxSequenceLength: 400 },
        /the model knows 300, 64, 64 positions/,
      ],
    ]);
  }, { folder: golden.folder });
});

Deno.test("Lumina2Pipeline.generate() takes LoRAs under the original names, in which queries, keys and values are one", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    await cases.checkOriginal(t, pipeline);
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "Lumina2Pipeline.generate() gives the reference's from text alone, cut, guided, from an image and by a mask, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await cases.check(t, pipeline, ["text", "guided", "plain", "cut", "picture", "masked"]);
      await cases.checkPreviews(pipeline, "plain");
    }, { folder: golden.folder }),
});

Deno.test({
  name:
    "Lumina2Pipeline.generate() makes the same image within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => cases.checkBudgets(),
});
