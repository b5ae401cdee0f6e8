/** Whole Ovis-Image pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { DIFFUSERS_DIALECTS, ImagePipelineCases } from "../support/image_pipeline.ts";
import { readTensors } from "../support/lora_files.ts";
import { randomTensor } from "../support/lora_reference.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

const cases = new ImagePipelineCases("ovis_image/pipeline");
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

Deno.test("OvisImagePipeline.generate() gives the reference's latents and images, guided and with a LoRA in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.deepEqual([sizeMultiple, defaults.guidanceScale], [4, 5]);
    await cases.check(t, pipeline, ["guided"]);
    await cases.checkDialects(pipeline, DIFFUSERS_DIALECTS);
    await cases.checkAdapted(t, pipeline);
    await cases.checkOriginal(t, pipeline);
    await cases.checkRefusals(pipeline, "adapted", [
      [{ width: 42 }, /the width must be a multiple of 4, for example 44/],
      [{ maxSequenceLength: 257 }, /maxSequenceLength/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes one/],
    ]);
  }, { folder: golden.folder });
});

Deno.test("readLora() finds the layers of Ovis-Image's gated feed-forward, which are one in diffusers and two in the original", async () => {
  await withPipeline(async ({ pipeline: { adaptable } }) => {
    const changed = async (names: readonly string[], rows: number) => {
      const lora = await readTensors(
        Object.fromEntries(
          names.flatMap((name) => [
            [`${name}.lora_A.weight`, randomTensor([2, 256], 1)],
            [`${name}.lora_B.weight`, randomTensor([rows, 2], 2)],
          ]),
        ),
        adaptable,
      );
      assert.deepEqual(lora.unmatchedKeys, []);
      return lora.changes.map(({ module }) => module).sort();
    };
    const layers = ["gate", "up"].map((name) => `transformer_blocks.0.ff.net.0.${name}`);
    const joined = ["transformer.transformer_blocks.0.ff.net.0.proj"];
    const apart = ["gate_proj", "up_proj"].map((name) =>
      `lora_unet_double_blocks_0_img_mlp_${name}`
    );
    assert.deepEqual(await changed(joined, 2048), layers);
    assert.deepEqual(await changed(apart, 1024), layers);
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "OvisImagePipeline.generate() gives the reference's from text alone, at full length, from an image and by a mask, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await cases.check(t, pipeline, ["text", "usual", "picture", "masked"]);
      await cases.checkPreviews(pipeline, "adapted");
    }, { folder: golden.folder }),
});

Deno.test({
  name:
    "OvisImagePipeline.generate() makes the same image within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => cases.checkBudgets(),
});
