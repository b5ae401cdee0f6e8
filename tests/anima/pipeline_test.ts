/** Whole Anima pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { ImagePipelineCases, kohya } from "../support/image_pipeline.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

const cases = new ImagePipelineCases("anima/pipeline");
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

const MODULES: Readonly<Record<string, string>> = {
  blocks: "transformer_blocks",
  self_attn: "attn1",
  cross_attn: "attn2",
  q_proj: "to_q",
  k_proj: "to_k",
  output_proj: "to_out.0",
  mlp: "ff",
  layer1: "net.0.proj",
  adaln_modulation_mlp: "norm3",
};

/** What other programs make of the original names. */
const DIALECTS: Readonly<Record<string, (key: string) => string>> = {
  ComfyUI: (key) => key,
  diffusers: (key) => {
    const name = key.replace("diffusion_model.", "");
    if (name.startsWith("llm_adapter.")) return name.replace("llm_adapter", "text_conditioner");
    const parts = name.replace("adaln_modulation_mlp.2", "norm3.linear_2").split(".");
    return `transformer.${parts.map((part) => MODULES[part] ?? part).join(".")}`;
  },
  kohya: kohya("diffusion_model."),
};

Deno.test("AnimaModularPipeline.generate() gives the reference's latents and images, guided, without a negative prompt, by a mask and with a LoRA in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.deepEqual([sizeMultiple, defaults.guidanceScale], [8, 4]);
    await cases.check(t, pipeline, ["guided", "empty", "masked"]);
    await cases.checkDialects(pipeline, Object.values(DIALECTS));
    await cases.checkAdapted(t, pipeline, ["transformer", "text_encoder_2"]);
    await cases.checkRefusals(pipeline, "adapted", [
      [{ width: 42 }, /the width must be a multiple of 8, for example 40/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes one/],
      [{ width: 4096, height: 64 }, /the model has positions for 960x960/],
    ]);
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "AnimaModularPipeline.generate() gives the reference's from text alone and from an image, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await cases.check(t, pipeline, ["text", "picture"]);
      await cases.checkPreviews(pipeline, "text");
    }, { folder: golden.folder }),
});

Deno.test({
  name:
    "AnimaModularPipeline.generate() makes the same image within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => cases.checkBudgets(),
});
