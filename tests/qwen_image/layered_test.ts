/** Qwen-Image-Layered's pipeline against diffusers: same folder, prompt, image and seed. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { openPipeline, type Pipeline, type PipelineRequest } from "../../models/mod.ts";
import { assertClose, Golden, type GoldenCall, rowsOf } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";
import { withFolder } from "../support/safetensors.ts";

/** f32 against torch in f32; weights as stored. Gate of the design for a few steps: 50 dB. */
const MIN_PSNR = 50;
/** Of the latents after the last step, as a part of their largest magnitude. */
const LATENT_GATE = 1e-4;

const golden = new Golden("qwen_image/layered");
/** What the transformer and the autoencoder stand beside. */
const others = new Golden("qwen_image/pipeline");

/** Calls `use` with a folder that has every part. */
function withModel<T>(use: (folder: string) => Promise<T>): Promise<T> {
  return withFolder({}, async (folder) => {
    for (const { folder: from } of [others, golden]) cpSync(from, folder, { recursive: true });
    return await use(folder);
  });
}

function requestOf(call: GoldenCall): PipelineRequest {
  const { width, height, ...request } = textRequest(call);
  const pixels = golden.tensor(call.name, "given").data;
  const rgb = new Uint8Array(width * height * 3);
  const alpha = new Uint8Array(width * height);
  for (let i = 0; i < alpha.length; i++) {
    for (let c = 0; c < 3; c++) rgb[3 * i + c] = pixels[4 * i + c]!;
    alpha[i] = pixels[4 * i + 3]!;
  }
  return {
    ...{ ...request, width, height, task: "TI2I" },
    images: [{ width, height, data: rgb, alpha }],
    layers: call.args["layers"] as number,
    guidanceScale: call.args["true_cfg_scale"] as number,
  };
}

async function checkCall(pipeline: Pipeline, call: GoldenCall): Promise<void> {
  const { latents, frames } = await pipeline.generate(requestOf(call));
  const expected = golden.tensor(call.name, "latents");
  assertClose("latents", { shape: expected.shape, data: latents }, expected, LATENT_GATE);
  const layers = golden.tensor(call.name, "layers");
  assert.equal(frames.length, layers.shape[0]);
  for (const [i, frame] of frames.entries()) {
    const decibels = psnr(frame, rowsOf(layers, i, i + 1).data);
    if (Deno.env.get("DENOISE_SHOW_ERRORS")) console.log(`layer ${i}: ${decibels.toFixed(1)} dB`);
    assert.ok(decibels > MIN_PSNR, `PSNR of layer ${i} is ${decibels.toFixed(1)} dB`);
  }
}

Deno.test("QwenImageLayeredPipeline.generate() gives the reference's layers with alpha, guided too, and previews without", () =>
  withModel(async (folder) => {
    const device = await openTestDevice();
    try {
      using pipeline = await openPipeline(folder);
      await pipeline.load(device);
      for (const call of golden.calls) await checkCall(pipeline, call);
      const { supportedTasks, layers } = pipeline.info;
      assert.deepEqual({ supportedTasks, layers: layers?.initial }, {
        supportedTasks: ["TI2I"],
        layers: 4,
      });
      const request = requestOf(golden.call("plain"));
      const sizes: number[] = [];
      await pipeline.generate(request, {
        previews: 1,
        onPreview: (frame) => sizes.push(frame.length),
      });
      assert.deepEqual(sizes, [request.width * request.height * 3]);
      const cases: readonly [Partial<PipelineRequest>, RegExp][] = [
        [{ layers: 17 }, /Cannot split an image into 17 layers: it can be 1 to 16/],
        [{ task: "T2I" }, /Cannot do T2I: this model does TI2I/],
        [{ images: [{ ...request.images![0]!, alpha: new Uint8Array(5) }] }, /5 bytes of alpha/],
      ];
      for (const [change, message] of cases) {
        const refused = pipeline.generate({ ...request, ...change });
        await assert.rejects(refused, { name: "RangeError", message });
      }
    } finally {
      device.destroy();
    }
  }));

Deno.test("openPipeline() refuses layers with parts that know none, and the other way round", async () => {
  const classed = async (folder: string, name: string) => {
    const path = `${folder}/model_index.json`;
    const index = JSON.parse(Deno.readTextFileSync(path));
    Deno.writeTextFileSync(path, JSON.stringify({ ...index, _class_name: name }));
    using _pipeline = await openPipeline(folder);
  };
  await withModel(async (folder) => {
    await assert.rejects(
      classed(folder, "QwenImagePipeline"),
      /Cannot use the transformer: it makes layers/,
    );
    cpSync(`${others.folder}/vae`, `${folder}/vae`, { recursive: true });
    await assert.rejects(
      classed(folder, "QwenImageLayeredPipeline"),
      /the autoencoder has no alpha/,
    );
    cpSync(`${others.folder}/transformer`, `${folder}/transformer`, { recursive: true });
    await assert.rejects(classed(folder, "QwenImageLayeredPipeline"), /the transformer knows none/);
  });
});
