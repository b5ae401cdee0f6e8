/** Upscalers against the reference, whole and in tiles, and at the end of a pipeline. */
import { basename, dirname, join } from "node:path";
import { recognise } from "../../models/checkpoints/recognise.ts";
import { parseConfig } from "../../models/config.ts";
import { Session } from "../../models/memory/session.ts";
import { SessionRunner } from "../../models/memory/session_runner.ts";
import { readRecipe } from "../../generation/read_recipe.ts";
import { recipeText } from "../../generation/recipe.ts";
import { loadModel } from "../../mod.ts";
import { openPipeline } from "../../models/mod.ts";
import { Finishing } from "../../models/pipeline/finishing.ts";
import {
  COMPACT_UPSCALER_FORMAT,
  RRDB_UPSCALER_FORMAT,
  UPSCALER_CONFIG,
} from "../../models/upscalers/upscaler.ts";
import { Weights } from "../../runtime/mod.ts";
import { Golden, transpose } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";

import assert from "node:assert/strict";

const FILE = "diffusion_pytorch_model.safetensors";

/** What f32 gives against torch in f32; tiles are coded without their surroundings. */
const MIN_PSNR = { small: 100, wide: 50 } as const;

for (const name of ["compact", "compact4", "large4", "large2"]) {
  Deno.test(`an upscaler gives the pixels of the reference: ${name}`, async () => {
    const golden = new Golden(`upscalers/${name}`);
    const device = await openTestDevice();
    using checkpoint = golden.checkpoint(FILE);
    try {
      const [found] = recognise(checkpoint, [COMPACT_UPSCALER_FORMAT, RRDB_UPSCALER_FORMAT]);
      const config = parseConfig(UPSCALER_CONFIG, found!.format.config(found!.tensors), FILE);
      const weights = new Weights(found!.tensors);
      for (const call of golden.calls) {
        const image = golden.tensor(call.name, "image");
        const [height, width] = image.shape.slice(-2) as [number, number];
        const session = new Session(device.target);
        const shape = { width, height, isUpscaled: true };
        const finishing = new Finishing(
          session,
          { upscaler: { config, weights, path: "" } },
          shape,
        );
        const runner = new SessionRunner(session, { upscaler: weights });
        await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
        // Three frames: they come in order, and the first leaves nothing behind.
        const pixels = Float32Array.from(transpose(image, [0, 2, 3, 1]).data);
        const results: Float32Array[] = [];
        await runner.run(async (queue) => {
          for (const frame of [pixels, pixels.map((value) => 1 - value), pixels]) {
            finishing.take(frame);
            await finishing.run(queue, (result) => results.push(result));
          }
        });
        runner.destroy();
        weights.destroy();
        const { data } = transpose(golden.tensor(call.name, "result"), [0, 2, 3, 1]);
        const expected = Array.from(data, (value) => Math.min(1, Math.max(0, value)));
        assert.deepEqual(results[2], results[0]);
        assert.notDeepEqual(results[1], results[0]);
        assert.equal(results[0]!.length, expected.length);
        const decibels = psnr(results[0]!, expected);
        const least = MIN_PSNR[call.name as keyof typeof MIN_PSNR];
        assert.ok(decibels > least, `${call.name}: PSNR is ${decibels.toFixed(1)} dB`);
      }
    } finally {
      device.destroy();
    }
  });
}

Deno.test("enableUpscaling enlarges every frame of a video", async () => {
  const golden = new Golden("wan/pipeline-t2v");
  const upscaler = join(new Golden("upscalers/compact").folder, FILE);
  const device = await openTestDevice();
  using pipeline = await openPipeline(golden.folder, { upscaler });
  try {
    await pipeline.load(device);
    assert.equal(pipeline.info.upscalerScale, 2);
    const clip = textRequest(golden.call("clip9"));
    const request = { ...clip, width: 16, height: 16, numFrames: 21, numInferenceSteps: 1 };
    const { frames } = await pipeline.generate({ ...request, enableUpscaling: true });
    // Decoder and upscaler take turns on the device: neither loses what it keeps between frames.
    using apart = await openPipeline(golden.folder, { upscaler });
    await apart.load(device, undefined, { offloaded: new Set(["autoencoder", "upscaler"]) });
    const other = await apart.generate({ ...request, enableUpscaling: true });
    assert.deepEqual(other.frames, frames);
    const size = 4 * request.width * request.height * 3;
    assert.deepEqual(frames.map(({ length }) => length), new Array(21).fill(size));
  } finally {
    device.destroy();
  }
  await assert.rejects(
    async () => {
      using without = await openPipeline(golden.folder);
      const request = textRequest(golden.call("image"));
      await without.generate({ ...request, enableUpscaling: true });
    },
    /the model has no upscaler; name its file with --upscaler/,
  );
});

Deno.test("Model.generate() gives an upscaled image the scale that was asked for, and says what was drawn", async () => {
  const upscaler = join(new Golden("upscalers/compact").folder, FILE);
  await using model = await loadModel(new Golden("wan/pipeline-t2v").folder, {
    parts: { upscaler },
    tuning: "off",
  });
  const options = { prompt: "a star", width: 32, height: 48, numInferenceSteps: 1, seed: 1 };
  // The network enlarges twice.
  const [image] = await model.generate({ ...options, enableUpscaling: true, upscalingScale: 3 });
  assert.deepEqual([image.width, image.height], [96, 144]);
  assert.equal(image.data.length, 96 * 144 * 3);
  assert.deepEqual(image.recipe.drawnAt, { width: 32, height: 48 });
  const { denoise, parameters } = recipeText(image.recipe, "png");
  // The file has a name that says nothing.
  assert.equal(JSON.parse(denoise!).upscaler, basename(dirname(upscaler)));
  assert.match(parameters!, /Size: 32x48, .*Postprocess upscale by: 3, Postprocess upscaler: /);
  const again = readRecipe({ denoise: denoise! })!;
  assert.deepEqual([again.width, again.height, again.unused], [32, 48, []]);
  await assert.rejects(
    model.generate({ ...options, width: 2048, height: 2048, enableUpscaling: true }),
    /Cannot upscale 2048x2048 to 8192x8192: results have at most 16777216 pixels/,
  );
  await assert.rejects(
    model.generate({ ...options, upscalingScale: 3 }),
    /Cannot use upscalingScale 3: nothing is upscaled; omit it/,
  );
});
