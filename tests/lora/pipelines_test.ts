/** LoRAs in whole pipelines against the reference: from files and a prompt to pixels. */
import assert from "node:assert/strict";
import { openPipeline } from "../../models/mod.ts";
import { assertClose, Golden, type Values } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { appliedOf, LORA_GOLDEN, readUsed } from "./golden.ts";
import { openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";

/** Of latents after the last step: beside the weights, and written into them, in 16 bits. */
const LATENT_GATES = { dynamic: 1e-5, merge: 5e-3 };
/** Least PSNR of pixels, in decibels. */
const MIN_PSNR = { dynamic: 80, merge: 60 };

/** Latents as the reference keeps them: FLUX.2's as tokens, [tokens, channels]. */
function latentsLike(latents: Float32Array, { shape }: Values): Values {
  if (shape.length !== 2) return { shape, data: latents };
  const [tokens, channels] = shape as [number, number];
  const data = latents.map((_, i) => latents[(i % channels) * tokens + Math.floor(i / channels)]!);
  return { shape, data };
}

for (const call of LORA_GOLDEN.calls.filter(({ name }) => name.startsWith("pipeline"))) {
  const { name, args } = call;
  Deno.test(`generate() of ${args.base} gives with LoRAs the images of ${args.reference}: ${name}`, async (t) => {
    const device = await openTestDevice();
    try {
      using pipeline = await openPipeline(new Golden(args.base as string).folder);
      await pipeline.load(device);
      const used = await readUsed(call, pipeline.adaptable);
      for (const { lora } of used) assert.deepEqual(lora.unmatchedKeys, []);
      for (const mode of ["dynamic", "merge"] as const) {
        await t.step(mode, async () => {
          const { frames, latents } = await pipeline.generate({
            ...textRequest(call),
            loras: appliedOf(used, mode),
          });
          const expected = LORA_GOLDEN.tensor(name, "latents");
          assertClose("latents", latentsLike(latents, expected), expected, LATENT_GATES[mode]);
          const [, image] = call.outputs;
          const decibels = psnr(frames[0]!, LORA_GOLDEN.tensor(name, image!).data);
          if (Deno.env.get("DENOISE_SHOW_ERRORS")) console.log(`PSNR ${decibels.toFixed(1)} dB`);
          assert.ok(decibels > MIN_PSNR[mode], `PSNR is ${decibels.toFixed(1)} dB`);
        });
      }
    } finally {
      device.destroy();
    }
  });
}
