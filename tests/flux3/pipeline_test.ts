/** Whole FLUX.3 Image klein pipelines against diffusers: same folder, prompt, images and seed, from text to pixels. */
import assert from "node:assert/strict";
import { readRecipe } from "../../generation/read_recipe.ts";
import { recipeText } from "../../generation/recipe.ts";
import { loadModel } from "../../mod.ts";
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
/** Most that a pixel of eight bits may differ from the reference's, rounded. */
const LEVELS = 1;
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

Deno.test("Model.generate() keeps a single input image whole and gives its size back, as the reference does", async () => {
  await using model = await loadModel(golden.folder, { tuning: "off" });
  const { args } = golden.call("whole");
  const { shape: [height, width], data } = golden.tensor("whole", "image0");
  const options = {
    prompt: args["prompt"] as string,
    seed: args["seed"] as number,
    numInferenceSteps: args["num_inference_steps"] as number,
    guidanceScale: args["guidance_scale"] as number,
    images: [{ width: width!, height: height!, data: Uint8Array.from(data) }],
  };
  const [image] = await model.generate(options);
  assert.deepEqual([image.width, image.height], [70, 50]);
  const expected = golden.tensor("whole", "image").data;
  const apart = Array.from(image.data, (value, i) => Math.abs(value - expected[i]! * 255));
  assert.equal(image.data.length, expected.length);
  assert.ok(Math.max(...apart) <= LEVELS, `${Math.max(...apart)} levels apart`);
  // Whoever makes the image again asks for the size that was drawn.
  const { denoise } = recipeText(image.recipe, "png");
  const again = readRecipe({ denoise: denoise! })!;
  assert.deepEqual([again.width, again.height], [72, 64]);
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
