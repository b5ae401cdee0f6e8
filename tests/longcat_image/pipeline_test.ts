/** Whole LongCat-Image pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { DIFFUSERS_DIALECTS, ImagePipelineCases, imageRequest } from "../support/image_pipeline.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

const cases = new ImagePipelineCases("longcat_image/pipeline", (golden, call) => ({
  ...imageRequest(golden, call),
  ...(call.args["enable_cfg_renorm"] === false && { guidanceRescale: 0 }),
}));
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

Deno.test("LongCatImagePipeline.generate() gives the reference's latents and images, guided and with a LoRA in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.deepEqual([sizeMultiple, defaults.guidanceScale], [4, 4.5]);
    await cases.check(t, pipeline, ["guided"]);
    await cases.checkDialects(pipeline, DIFFUSERS_DIALECTS);
    await cases.checkAdapted(t, pipeline);
    await cases.checkOriginal(t, pipeline);
    await cases.checkRefusals(pipeline, "adapted", [
      [{ width: 42 }, /the width must be a multiple of 4, for example 44/],
      [{ maxSequenceLength: 64 }, /maxSequenceLength/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes one/],
    ]);
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "LongCatImagePipeline.generate() gives the reference's from text alone, cut, guided plainly, from an image and by a mask, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await cases.check(t, pipeline, ["text", "plain", "long", "picture", "masked"]);
      await cases.checkPreviews(pipeline, "adapted");
    }, { folder: golden.folder }),
});

Deno.test({
  name:
    "LongCatImagePipeline.generate() makes the same image within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => cases.checkBudgets([0.7, 0.55]),
});
