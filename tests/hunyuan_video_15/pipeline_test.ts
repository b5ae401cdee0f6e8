/** Whole HunyuanVideo 1.5 pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { fit } from "../../media/fit.ts";
import type { Pipeline, PipelineRequest } from "../../models/mod.ts";
import { checkBudgets } from "../support/budgets.ts";
import { withComposed } from "../support/composed.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { DIFFUSERS_DIALECTS, ImagePipelineCases } from "../support/image_pipeline.ts";
import { readRenamed, readTensors } from "../support/lora_files.ts";
import { randomTensor } from "../support/lora_reference.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { psnr } from "../support/pixels.ts";

const LATENT_GATE = 1e-4;
/** Gate of the design for a few steps, in dB. */
const MIN_PSNR = 50;

const [text, image, steps] = ["pipeline", "image", "steps"].map((name) =>
  new Golden(`hunyuan_video_15/${name}`)
) as [Golden, Golden, Golden];
const ignore = !Deno.env.has("DENOISE_SLOW");

function requestOf(golden: Golden, call: GoldenCall): PipelineRequest {
  const request = { ...textRequest(call), task: "T2V" as const };
  if (!call.inputs.includes("image")) return request;
  const { shape: [height, width], data } = golden.tensor(call.name, "image");
  const given = { width: width!, height: height!, data: Uint8Array.from(data) };
  // As diffusers does it: scaled to cover the result, its middle cut out.
  const size = { width: request.width, height: request.height };
  const isWide = size.width / size.height > given.width / given.height;
  const scaled = isWide
    ? { ...size, height: Math.floor(given.height * size.width / given.width) }
    : { ...size, width: Math.floor(given.width * size.height / given.height) };
  return { ...request, task: "I2V", images: [fit(given, { scaled, cut: size })] };
}

async function check(
  t: Deno.TestContext,
  golden: Golden,
  pipeline: Pipeline,
  names: readonly string[],
  change: Partial<PipelineRequest> = {},
): Promise<void> {
  for (const name of names) {
    await t.step(name, async () => {
      const request = { ...requestOf(golden, golden.call(name)), ...change };
      const { latents, frames } = await pipeline.generate(request);
      const expected = golden.tensor(name, "latents");
      assertClose("latents", { shape: expected.shape, data: latents }, expected, LATENT_GATE);
      const { data, shape } = golden.tensor(name, "frames");
      assert.equal(frames.length, shape[0]);
      const decibels = psnr(Float32Array.from(frames.flatMap((frame) => Array.from(frame))), data);
      if (Deno.env.has("DENOISE_SHOW_ERRORS")) {
        console.log(`${name}: PSNR ${decibels.toFixed(1)} dB`);
      }
      assert.ok(decibels > MIN_PSNR, `PSNR is ${decibels.toFixed(1)} dB`);
    });
  }
}

/** Names of Tencent's code, and of ComfyUI's, for LoRAs; each with what it changes. */
const OTHER_NAMES: readonly (readonly [key: string, rows: number, modules: readonly string[]])[] = [
  ["lora_unet_double_blocks_0_img_attn_q", 256, ["attn.to_q"]],
  ["diffusion_model.double_blocks.0.txt_attn_k", 256, ["attn.add_k_proj"]],
  ["diffusion_model.double_blocks.0.img_mlp.fc1", 1024, ["ff.net.0.proj"]],
  ["lora_unet_double_blocks_0_img_mod_linear", 1536, ["norm1.linear"]],
  ["diffusion_model.double_blocks.0.txt_attn_qkv", 768, [
    ...["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"],
  ]],
  ["diffusion_model.double_blocks.0.img_attn.qkv", 768, [
    ...["attn.to_q", "attn.to_k", "attn.to_v"],
  ]],
  ["lora_unet_double_blocks_0_txt_mlp_0", 1024, ["ff_context.net.0.proj"]],
];

async function checkOtherNames(pipeline: Pipeline): Promise<void> {
  for (const [key, rows, modules] of OTHER_NAMES) {
    const lora = await readTensors({
      [`${key}.lora_down.weight`]: randomTensor([2, 256], 1),
      [`${key}.lora_up.weight`]: randomTensor([rows, 2], 2),
    }, pipeline.adaptable);
    assert.deepEqual(lora.unmatchedKeys, []);
    const names = lora.changes.map(({ module }) => module).sort();
    assert.deepEqual(names, modules.map((name) => `transformer_blocks.0.${name}`).sort(), key);
  }
}

Deno.test("HunyuanVideo15Pipeline.generate() gives the reference's videos, guided, with quotes, and reads its LoRA in any dialect", async (t) => {
  const cases = new ImagePipelineCases("hunyuan_video_15/pipeline", requestOf);
  await withPipeline(async ({ pipeline }) => {
    const { supportedTasks, sizeMultiple, frameMultiple, maxImages, defaults } = pipeline.info;
    assert.deepEqual(supportedTasks, ["T2V"]);
    assert.deepEqual([sizeMultiple, frameMultiple, maxImages], [16, 4, 0]);
    assert.deepEqual([defaults.width, defaults.height], [112, 64]);
    assert.deepEqual([defaults.numInferenceSteps, defaults.guidanceScale], [50, 6]);
    await check(t, text, pipeline, ["guided", ...ignore ? [] : ["text", "negative", "cut"]]);
    await cases.checkDialects(pipeline, DIFFUSERS_DIALECTS);
    await checkOtherNames(pipeline);
    await cases.checkRefusals(pipeline, "guided", [
      [{ width: 72 }, /the width must be a multiple of 16, for example 80/],
      [{ task: "I2V" }, /Cannot do I2V/],
      [{ trueCfgScale: 3 }, /trueCfgScale/],
    ]);
  }, { folder: text.folder });
});

Deno.test("HunyuanVideo15ImageToVideoPipeline.generate() gives the reference's video from an image", (t) =>
  withComposed([image, text], (folder) =>
    withPipeline(async ({ pipeline }) => {
      const { supportedTasks, maxImages, imageSizes } = pipeline.info;
      assert.deepEqual([supportedTasks, maxImages], [["I2V"], 1]);
      assert.ok(imageSizes!.some(({ width, height }) => width === 96 && height === 96));
      await check(t, image, pipeline, ["image", ...ignore ? [] : ["upright"]]);
    }, { folder })));

Deno.test({
  name:
    "HunyuanVideo15Pipeline.generate() gives the reference's with a LoRA, from few steps, with previews; with DENOISE_SLOW",
  ignore,
  fn: async (t) => {
    await withPipeline(async ({ pipeline }) => {
      const path = `${text.folder}/adapter.safetensors`;
      const lora = await readRenamed(path, pipeline.adaptable, (key) => key);
      const strength = text.call("adapted").args["strength"] as number;
      const mode = "dynamic" as const;
      const targets = ["transformer" as const];
      const loras = [{ key: "adapter", lora, strength, mode, targets }];
      await check(t, text, pipeline, ["adapted"], { loras });
      const previews: number[] = [];
      await pipeline.generate(requestOf(text, text.call("guided")), {
        previews: 2,
        onPreview: (frame, index) => {
          assert.equal(frame.length, 64 * 48 * 3);
          previews.push(index);
        },
      });
      assert.deepEqual(previews, [0, 1]);
    }, { folder: text.folder });
    await withComposed([steps, image, text], (folder) =>
      withPipeline(async ({ pipeline }) => {
        assert.equal(pipeline.info.defaults.numInferenceSteps, 12);
        await check(t, steps, pipeline, ["steps"]);
      }, { folder }));
  },
});

Deno.test({
  name:
    "HunyuanVideo15Pipeline.generate() makes the same video within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => checkBudgets(text.folder, requestOf(text, text.call("guided")), [0.6, 0.45]),
});
