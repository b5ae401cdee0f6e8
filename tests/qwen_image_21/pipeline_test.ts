/** Whole Qwen-Image-2.1 pipelines against diffusers: same folder, prompt, image and seed, from text to pixels with alpha. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { textRequest } from "../support/golden_request.ts";
import type { PipelineRequest } from "../../models/mod.ts";
import type { Golden, GoldenCall } from "../support/golden.ts";
import { DIFFUSERS_DIALECTS, ImagePipelineCases } from "../support/image_pipeline.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { withFolder } from "../support/safetensors.ts";

const ignore = !Deno.env.has("DENOISE_SLOW");

function requestOf(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const size = { width: args["width"] as number, height: args["height"] as number };
  const bytes = (name: string, input: string) => Uint8Array.from(golden.tensor(name, input).data);
  const rgba = inputs.includes("given") ? bytes(name, "given") : undefined;
  return {
    ...textRequest(call),
    guidanceScale: args["true_cfg_scale"] as number | undefined ?? 1,
    ...(rgba && {
      task: "TI2I" as const,
      images: [{
        ...size,
        data: rgba.filter((_, i) => i % 4 < 3),
        alpha: rgba.filter((_, i) => i % 4 === 3),
      }],
      strength: args["strength"] as number,
    }),
    ...(inputs.includes("mask") && { mask: [bytes(name, "mask")] }),
  };
}

const cases = new ImagePipelineCases("qwen_image_21/pipeline", requestOf);
const { golden } = cases;

Deno.test("QwenImage21Pipeline.generate() gives the reference's latents and images with guidance, and reads LoRAs in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.deepEqual([sizeMultiple, defaults.numInferenceSteps], [32, 40]);
    await cases.check(t, pipeline, ["guided"]);
    await cases.checkDialects(pipeline, DIFFUSERS_DIALECTS);
    await cases.checkRefusals(pipeline, "guided", [
      [{ width: 48 }, /the width must be a multiple of 32, for example 64/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes 1 to 3/],
      [{ flowShift: 3 }, /flowShift/],
    ]);
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "QwenImage21Pipeline.generate() gives the reference's from text alone, of an empty prompt, by a mask and with a LoRA, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await cases.check(t, pipeline, ["text", "empty", "masked"]);
      await cases.checkAdapted(t, pipeline);
      await cases.checkPreviews(pipeline, "empty");
    }, { folder: golden.folder }),
});

Deno.test({
  name:
    "QwenImage21Pipeline.generate() gives the reference's from an image where the text encoder sees none; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withFolder({}, async (folder) => {
      cpSync(golden.folder, folder, { recursive: true });
      const path = `${folder}/text_encoder/config.json`;
      const { vision_config: _, ...config } = JSON.parse(Deno.readTextFileSync(path));
      Deno.writeTextFileSync(path, JSON.stringify(config));
      await withPipeline(({ pipeline }) => cases.check(t, pipeline, ["picture"]), { folder });
    }),
});

Deno.test({
  name:
    "QwenImage21Pipeline.generate() makes the same image within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => cases.checkBudgets(),
});
