/** Whole Krea 2 pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import type { InputImage, PipelineRequest } from "../../models/mod.ts";
import type { ReferenceMethod } from "../../models/pipeline/settings.ts";
import type { Golden, GoldenCall } from "../support/golden.ts";
import { ImagePipelineCases, imageRequest, kohya } from "../support/image_pipeline.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { withFolder } from "../support/safetensors.ts";

/** The request of a call, maybe after reference images. */
function editRequest(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, inputs, args } = call;
  const references = inputs.filter((input) => input.startsWith("reference"))
    .map((input): InputImage => {
      const { shape: [height, width], data } = golden.tensor(name, input);
      return { width: width!, height: height!, data: Uint8Array.from(data) };
    });
  return {
    ...imageRequest(golden, call),
    ...(references.length > 0 && {
      references,
      referenceMethod: args["reference_method"] as ReferenceMethod,
    }),
  };
}

const cases = new ImagePipelineCases("krea2/pipeline", editRequest);
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

const MODULES: Readonly<Record<string, string>> = {
  "blocks": "transformer_blocks",
  "first": "img_in",
  "wq": "to_q",
  "wo": "to_out.0",
  "mlp": "ff",
  "txtfusion": "text_fusion",
  "wv": "to_v",
  "txtmlp.1": "txt_in.linear_1",
  "tmlp.0": "time_embed.linear_1",
  "tproj.1": "time_mod_proj",
  "last": "final_layer",
};

/** What other programs make of Krea's names. */
const DIALECTS: Readonly<Record<string, (key: string) => string>> = {
  ComfyUI: (key) => key,
  "AI-Toolkit": (key) => key.replace("diffusion_model.", "base_model.model."),
  diffusers: (key) => {
    const parts = key.replace("diffusion_model.", "").replace("attn.gate", "attn.to_gate")
      .replace(/^(txtmlp|tmlp|tproj)\.(\d)/, (found) => MODULES[found]!).split(".");
    return `transformer.${parts.map((part) => MODULES[part] ?? part).join(".")}`;
  },
  kohya: kohya("diffusion_model."),
};

Deno.test("Krea2Pipeline.generate() gives the reference's latents and images, guided and with a LoRA in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.deepEqual([sizeMultiple, defaults.guidanceScale], [8, 4.5]);
    await cases.check(t, pipeline, ["guided", "edit"]);
    await cases.checkDialects(pipeline, Object.values(DIALECTS));
    await cases.checkAdapted(t, pipeline);
    await cases.checkRefusals(pipeline, "adapted", [
      [{ width: 42 }, /the width must be a multiple of 8, for example 40/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes one/],
      [{ flowShift: 3 }, /flowShift/],
      [
        { referenceMethod: "index" },
        /Cannot use referenceMethod: the request has no reference image/,
      ],
    ]);
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "Krea2Pipeline.generate() gives the reference's from text alone, cut, from an image, by a mask and after references, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await cases.check(t, pipeline, [
        ...["text", "empty", "picture", "cut", "masked"],
        ...["edits", "clean", "redrawn"],
      ]);
      await cases.checkPreviews(pipeline, "empty");
    }, { folder: golden.folder }),
});

Deno.test({
  name:
    "Krea2Pipeline.generate() gives the reference's of a distilled model, whose shift is the same for every size; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withFolder({}, async (folder) => {
      cpSync(golden.folder, folder, { recursive: true });
      const path = `${folder}/model_index.json`;
      const index = JSON.parse(Deno.readTextFileSync(path));
      Deno.writeTextFileSync(path, JSON.stringify({ ...index, is_distilled: true }));
      await withPipeline(async ({ pipeline }) => {
        const { numInferenceSteps, guidanceScale } = pipeline.info.defaults;
        assert.deepEqual([numInferenceSteps, guidanceScale], [8, 0]);
        await cases.check(t, pipeline, ["turbo"]);
      }, { folder });
    }),
});

Deno.test({
  name:
    "Krea2Pipeline.generate() makes the same image within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => cases.checkBudgets(),
});
