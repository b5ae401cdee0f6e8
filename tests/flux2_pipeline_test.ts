/** Whole FLUX.2 klein pipelines against diffusers: same folder, prompt, pictures and seed, from text to pixels. */
import assert from "node:assert/strict";
import { cp } from "node:fs/promises";
import type { Picture } from "../engine/types.ts";
import { openPipeline, type Pipeline, type PipelineRequest } from "../models/mod.ts";
import { openDevice } from "../runtime/mod.ts";
import { fitPicture, sizeFromPicture } from "../server/mod.ts";
import { assertClose, Golden, type GoldenCall, type Values } from "./golden.ts";
import { psnr } from "./pixels.ts";

/** f32 against torch in f32; weights as stored. Gate of the design for a few steps: 50 dB. */
const MIN_PSNR = 50;
/** Of the tokens after the last step, as a part of their largest magnitude. */
const LATENT_GATE = 1e-4;

/** Opens the pipeline of a golden, distilled or not: nothing but `model_index.json` says it. */
async function withPipeline(
  golden: Golden,
  isDistilled: boolean,
  use: (pipeline: Pipeline) => Promise<void>,
): Promise<void> {
  const folder = Deno.makeTempDirSync();
  const device = await openDevice();
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

function requestOf(golden: Golden, { name, args, inputs }: GoldenCall, { info }: Pipeline) {
  const rules = {
    ...info,
    maxPixels: 2 ** 24,
    ...(info.pictureLimits ? { imageLimits: info.pictureLimits } : {}),
  };
  const given = inputs.map((input) => pictureOf(golden.tensor(name, input)));
  const size = { width: args["width"] as number, height: args["height"] as number };
  if (name === "one_picture") assert.deepEqual(sizeFromPicture(given[0]!, rules), size);
  const pictures = given.map((picture) => fitPicture(picture, size, rules));
  return {
    task: pictures.length > 0 ? "TI2I" : "T2I",
    prompt: args["prompt"] as string,
    negativePrompt: "",
    ...size,
    numFrames: 1,
    seed: args["seed"] as number,
    numInferenceSteps: args["num_inference_steps"] as number,
    guidanceScale: args["guidance_scale"] as number,
    maxSequenceLength: args["max_sequence_length"] as number,
    ...(pictures.length > 0 ? { pictures } : {}),
  } satisfies PipelineRequest;
}

function pictureOf({ shape: [height, width], data }: Values): Picture {
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

for (const isDistilled of [true, false]) {
  const kind = isDistilled ? "distilled" : "base";
  Deno.test(`Flux2Pipeline.generate() gives the pictures of diffusers: ${kind}`, async (t) => {
    const golden = new Golden("flux2/pipeline");
    await withPipeline(golden, isDistilled, async (pipeline) => {
      for (const call of golden.calls.filter(({ args }) => args["is_distilled"] === isDistilled)) {
        await t.step(call.name, async () => {
          const { frames, latents } = await pipeline.generate(requestOf(golden, call, pipeline));
          const tokens = golden.tensor(call.name, "latents");
          const { shape } = tokens;
          assertClose("latents", { shape, data: toTokens(latents, shape) }, tokens, LATENT_GATE);
          const expected = golden.tensor(call.name, "frame");
          assert.equal(frames.length, 1);
          const decibels = psnr(frames[0]!, expected.data);
          if (Deno.env.get("DENOISE_SHOW_ERRORS")) {
            console.log(`${call.name}: PSNR ${decibels.toFixed(1)} dB`);
          }
          assert.ok(decibels > MIN_PSNR, `PSNR is ${decibels.toFixed(1)} dB`);
        });
      }
    });
  });
}
