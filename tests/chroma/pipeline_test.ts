/** Whole Chroma pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { openPipeline, type PipelineRequest } from "../../models/mod.ts";
import { withChroma } from "../composed.ts";
import { assertClose, Golden, type GoldenCall } from "../golden.ts";
import { textRequest } from "../golden_request.ts";
import { openTestDevice } from "../model_run.ts";
import { psnr } from "../pixels.ts";

/** f32 against torch in f32; weights as stored. Gate of the design for a few steps: 50 dB. */
const MIN_PSNR = 50;
/** Of the latents after the last step, as a part of their largest magnitude. */
const LATENT_GATE = 1e-4;

const golden = new Golden("chroma");

function requestOf(call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const request = textRequest(call);
  if (!inputs.includes("given")) return request;
  const { width, height } = request;
  const data = Uint8Array.from(golden.tensor(name, "given").data);
  const strength = args["strength"] as number;
  return { ...request, task: "TI2I", images: [{ width, height, data }], strength };
}

Deno.test("ChromaPipeline.generate() gives the images of diffusers, guided and from an image too", (t) =>
  withChroma(async (folder) => {
    const device = await openTestDevice();
    try {
      using pipeline = await openPipeline(folder);
      await pipeline.load(device);
      for (const call of golden.calls) {
        await t.step(call.name, async () => {
          const { latents, frames } = await pipeline.generate(requestOf(call));
          const expected = golden.tensor(call.name, "latents");
          assertClose("latents", { shape: expected.shape, data: latents }, expected, LATENT_GATE);
          const decibels = psnr(frames[0]!, golden.tensor(call.name, "image").data);
          assert.equal(frames.length, 1);
          assert.ok(decibels > MIN_PSNR, `PSNR is ${decibels.toFixed(1)} dB`);
        });
      }
      await t.step("a mask keeps the rest of an image", async () => {
        const request = requestOf(golden.call("picture"));
        const { width, height, images } = request;
        const mask = new Uint8Array(width * height).fill(255, 0, width * height / 2);
        const { frames } = await pipeline.generate({ ...request, mask: [mask] });
        const last = 3 * width * (height - 1);
        const given = Float32Array.from(images![0]!.data, (value) => value / 255);
        assert.deepEqual(frames[0]!.subarray(last), given.subarray(last));
        assert.notDeepEqual(frames[0]!.subarray(0, 3 * width), given.subarray(0, 3 * width));
      });
    } finally {
      device.destroy();
    }
  }));
