/** Whole FLUX.3 Image klein pipelines against diffusers: same folder, prompt, images and seed, from text to pixels. */
import assert from "node:assert/strict";
import { withComposed } from "../support/composed.ts";
import type { Golden, GoldenCall } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { editRequest } from "../support/golden_request.ts";
import { ImagePipelineCases, kohya } from "../support/image_pipeline.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

const MULTIPLE = 4;
const requestOf = (golden: Golden, call: GoldenCall) => editRequest(golden, call, MULTIPLE);
const cases = new ImagePipelineCases("flux3/pipeline", requestOf);
const { golden } = cases;
const distilled = new ImagePipelineCases("flux3/distilled", requestOf);
/** Diffusers' names of what trainers name otherwise. */
const ADAPTED: readonly (readonly [string, string])[] = [
  ["diffusion_model.", "transformer."],
  ["content_mode_blocks", "mode_blocks"],
  ["single_blocks", "single_transformer_blocks"],
  ...["q", "k", "v"].map((name) => [`.${name}_proj.`, `.attn.to_${name}.`] as const),
  [".attn_out.", ".attn.to_out.0."],
  [".mlp_in.", ".ff.linear_in."],
  [".mlp_out.", ".ff.linear_out."],
];
const ignore = !Deno.env.has("DENOISE_SLOW");

Deno.test("Flux3ModularPipeline.generate() gives the reference's latents and images, guided, and reads its LoRA in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, maxImages, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.deepEqual([sizeMultiple, maxImages, defaults.numInferenceSteps], [MULTIPLE, 10, 50]);
    await cases.check(t, pipeline, ["guided"]);
    await cases.checkDialects(pipeline, [
      (key) => key,
      (key) => key.replace("diffusion_model.", "base_model.model."),
      (key) => ADAPTED.reduce((name, [from, to]) => name.replace(from, to), key),
      kohya("diffusion_model."),
    ]);
    await cases.checkRefusals(pipeline, "adapted", [
      [{ width: 42 }, /the width must be a multiple of 4, for example 44/],
      [{ images: [] }, /Cannot do TI2I with 0 input images: it takes 1 to 10/],
      [{ trueCfgScale: 3 }, /trueCfgScale/],
    ]);
  }, { folder: golden.folder });
});

Deno.test("Flux3DistilledModularPipeline.generate() gives the reference's edit without guidance, whatever is asked for", (t) =>
  withComposed([distilled.golden, golden], (folder) =>
    withPipeline(async ({ pipeline }) => {
      assert.equal(pipeline.info.defaults.numInferenceSteps, 16);
      const request = { ...distilled.request("edit"), guidanceScale: 4 };
      await checkImage(distilled.golden, "edit", pipeline, request);
      if (!ignore) await distilled.check(t, pipeline, ["text"]);
    }, { folder })));

Deno.test({
  name:
    "Flux3ModularPipeline.generate() gives the reference's from text alone, of several images, by a mask and with a LoRA, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await cases.check(t, pipeline, ["text", "empty", "cut", "edit", "several", "masked"]);
      await cases.checkPreviews(pipeline, "empty");
      await cases.checkAdapted(t, pipeline);
    }, { folder: golden.folder }),
});

Deno.test({
  name:
    "Flux3ModularPipeline.generate() makes the same image within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => cases.checkBudgets(),
});
