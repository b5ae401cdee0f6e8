/** Whole Ideogram 4 pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { ImagePipelineCases, kohya } from "../support/image_pipeline.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

const cases = new ImagePipelineCases("ideogram4/pipeline");
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

Deno.test("Ideogram4Pipeline.generate() gives the reference's latents and images, guided by a transformer without text and with a LoRA in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.deepEqual([sizeMultiple, defaults.guidanceScale], [4, 7]);
    await cases.checkDialects(pipeline, [
      (key) => key,
      (key) => key.replace("diffusion_model.", "conditional_transformer."),
      (key) => key.replace("diffusion_model.", "base_model.model."),
      kohya("diffusion_model."),
    ]);
    await cases.checkAdapted(t, pipeline);
    await cases.checkRefusals(pipeline, "adapted", [
      [{ width: 42 }, /the width must be a multiple of 4, for example 44/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes one/],
      [{ trueCfgScale: 3 }, /trueCfgScale/],
    ]);
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "Ideogram4Pipeline.generate() gives the reference's without guidance, with the weaker one of its last steps, from an image and by a mask, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await cases.check(t, pipeline, ["text", "guided", "polished", "picture", "masked"]);
      await cases.checkPreviews(pipeline, "guided");
    }, { folder: golden.folder }),
});

Deno.test({
  name:
    "Ideogram4Pipeline.generate() makes the same image within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => cases.checkBudgets(),
});
