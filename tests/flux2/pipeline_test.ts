/** Whole FLUX.2 klein pipelines against diffusers: same folder, prompt, images and seed, from text to pixels. */
import assert from "node:assert/strict";
import { cp } from "node:fs/promises";
import type { Image } from "../../engine/types.ts";
import { readLora } from "../../models/lora/read_lora.ts";
import { openPipeline, type Pipeline, type PipelineRequest } from "../../models/mod.ts";
import { fitOf, sizeFromImage } from "../../generation/size.ts";
import { fit } from "../../media/fit.ts";
import { assertClose, Golden, type GoldenCall, type Values } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { checkMasked } from "../support/masked.ts";
import { psnr } from "../support/pixels.ts";
import { openTestDevice } from "../support/model_run.ts";

/** f32 against torch in f32; weights as stored. Gate of the design for a few steps: 50 dB. */
const MIN_PSNR = 50;
/** Least PSNR with factors rounded to halves, in decibels. */
const MIN_MERGED_PSNR = 35;
/** Largest error of tokens after the last step, as a part of their largest magnitude. */
const LATENT_GATE = 1e-4;
/** The same where LoRAs were written into weights, which are stored as bf16. */
const MERGED_GATE = 5e-3;

/** Opens the pipeline of a golden, distilled or not: nothing but `model_index.json` says it. */
async function withPipeline(
  golden: Golden,
  isDistilled: boolean,
  use: (pipeline: Pipeline) => Promise<void>,
): Promise<void> {
  const folder = Deno.makeTempDirSync();
  const device = await openTestDevice();
  try {
    await cp(golden.folder, folder, { recursive: true });
    const path = `${folder}/model_index.json`;
    const index = JSON.parse(Deno.readTextFileSync(path));
    Deno.writeTextFileSync(path, JSON.stringify({ ...index, is_distilled: isDistilled }));
    using pipeline = await openPipeline(folder);
    await pipeline.load(device);
    await use(pipeline);
  } finally {
    device.destroy();
    Deno.removeSync(folder, { recursive: true });
  }
}

function requestOf(golden: Golden, call: GoldenCall, { info }: Pipeline): PipelineRequest {
  const { name, inputs } = call;
  const rules = {
    ...info,
    maxPixels: 2 ** 24,
    ...(info.imageLimits ? { imageLimits: info.imageLimits } : {}),
  };
  const request = textRequest(call);
  const { width, height } = request;
  const given = inputs.filter((input) => input.startsWith("image"))
    .map((input) => imageOf(golden.tensor(name, input)));
  if (name === "one_picture") {
    assert.deepEqual(sizeFromImage(given[0]!, rules), { width, height });
  }
  const images = given.map((image) => fit(image, fitOf(image, { width, height }, rules)));
  if (images.length === 0) return request;
  return {
    ...{ ...request, task: "TI2I", images },
    ...(inputs.includes("mask") && {
      mask: [Uint8Array.from(golden.tensor(name, "mask").data)],
      strength: call.args["strength"] as number,
    }),
  };
}

function imageOf({ shape: [height, width], data }: Values): Image {
  return { width: width!, height: height!, data: Uint8Array.from(data) };
}

/** Latents, [channels, rows · columns], as tokens. */
function toTokens(latents: Float32Array, [tokens, channels]: readonly number[]): Float32Array {
  const result = new Float32Array(latents.length);
  for (let i = 0; i < result.length; i++) {
    result[i] = latents[(i % channels!) * tokens! + Math.floor(i / channels!)]!;
  }
  return result;
}

/** Runs a call, with the LoRAs given, and compares tokens and pixels. */
async function checkCall(
  golden: Golden,
  call: GoldenCall,
  pipeline: Pipeline,
  change: Partial<PipelineRequest> = {},
  gate: number = LATENT_GATE,
): Promise<void> {
  const request = { ...requestOf(golden, call, pipeline), ...change };
  const { frames, latents } = await pipeline.generate(request);
  const tokens = golden.tensor(call.name, "latents");
  const { shape } = tokens;
  assertClose("latents", { shape, data: toTokens(latents, shape) }, tokens, gate);
  const expected = golden.tensor(call.name, "frame");
  assert.equal(frames.length, 1);
  const decibels = request.mask
    ? checkMasked(frames[0]!, request, expected.data)
    : psnr(frames[0]!, expected.data);
  if (Deno.env.get("DENOISE_SHOW_ERRORS")) {
    console.log(`${call.name}: PSNR ${decibels.toFixed(1)} dB`);
  }
  assert.ok(
    decibels > (gate > LATENT_GATE ? MIN_MERGED_PSNR : MIN_PSNR),
    `PSNR is ${decibels.toFixed(1)} dB`,
  );
}

for (const isDistilled of [true, false]) {
  const kind = isDistilled ? "distilled" : "base";
  Deno.test(`Flux2Pipeline.generate() gives the images of diffusers: ${kind}`, async (t) => {
    const golden = new Golden("flux2/pipeline");
    await withPipeline(golden, isDistilled, async (pipeline) => {
      const isMeant = ({ name, args }: GoldenCall) =>
        args["is_distilled"] === isDistilled && (name === "masked" ||
          args["strength"] === null && args["file"] === null);
      for (const call of golden.calls.filter(isMeant)) {
        await t.step(call.name, () => checkCall(golden, call, pipeline));
      }
    });
  });
}

Deno.test("Flux2Pipeline.generate() applies LoRAs under diffusers' names and the original ones, beside the layers and written into them", async (t) => {
  const golden = new Golden("flux2/pipeline");
  const call = golden.call("adapted");
  await withPipeline(golden, true, async (pipeline) => {
    const plain = await pipeline.generate(requestOf(golden, call, pipeline));
    for (const name of ["diffusers", "original"]) {
      const path = `${golden.folder}/adapter-${name}.safetensors`;
      const lora = await readLora(path, pipeline.adaptable);
      assert.deepEqual(lora.unmatchedKeys, []);
      for (const mode of ["dynamic", "merge"] as const) {
        const use = { key: name, lora, strength: call.args["strength"] as number, mode };
        const loras = [{ ...use, targets: ["transformer" as const] }];
        const gate = mode === "merge" ? MERGED_GATE : LATENT_GATE;
        await t.step(
          `${name}, ${mode}`,
          () => checkCall(golden, call, pipeline, { loras }, gate),
        );
      }
    }
    const again = await pipeline.generate(requestOf(golden, call, pipeline));
    assert.deepEqual(again.latents, plain.latents, "nothing of the LoRAs is left");
  });
});

Deno.test("Flux2Pipeline.generate() gives the image of diffusers from a GGUF file of mixed types under the original names", async () => {
  const golden = new Golden("flux2/pipeline");
  const call = golden.call("gguf");
  const file = `${golden.folder}/${call.args["file"]}`;
  const device = await openTestDevice();
  try {
    using pipeline = await openPipeline(file, {
      textEncoder: `${golden.folder}/text_encoder`,
      vae: `${golden.folder}/vae`,
      tokenizer: golden.folder,
    });
    assert.equal(pipeline.info.precisions.transformer, "q4_0");
    assert.equal(pipeline.info.defaults.numInferenceSteps, 4);
    await pipeline.load(device);
    await checkCall(golden, call, pipeline);
  } finally {
    device.destroy();
  }
});
