/** Models in single files against diffusers on the numbers that these hold. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { type ModelParts, openPipeline } from "../../models/mod.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { psnr } from "../support/pixels.ts";
import { openTestDevice } from "../support/model_run.ts";

/** f32 against torch in f32 on the same numbers. */
const MIN_PSNR = 50;
const LATENT_GATE = 1e-3;

const golden = new Golden("single_files/wan");
const folder = new Golden("wan/pipeline-t2v").folder;
const file = (name: string) => join(golden.folder, name);
const sizeOf = (name: string) => Deno.statSync(file(name)).size;
const tokenizer = join(folder, "tokenizer");

async function run(call: string, model: string, parts: ModelParts) {
  const device = await openTestDevice();
  using pipeline = await openPipeline(model, parts);
  try {
    await pipeline.load(device);
    const weightBytes = device.allocatedBytes;
    const request = textRequest(golden.call(call));
    const { frames, latents } = await pipeline.generate(request);
    const expected = golden.tensor(call, "latents");
    assertClose("latents", { shape: expected.shape, data: latents }, expected, LATENT_GATE);
    const decibels = psnr(frames[0]!, golden.tensor(call, "frames").data);
    assert.ok(decibels > MIN_PSNR, `PSNR is ${decibels.toFixed(1)} dB, not above ${MIN_PSNR}`);
    if (Deno.env.get("DENOISE_SHOW_ERRORS")) console.log(`${call}: ${decibels.toFixed(1)} dB`);
    return { info: pipeline.info, weightBytes };
  } finally {
    device.destroy();
  }
}

Deno.test("a file with transformer in scaled fp8, text encoder and autoencoder gives diffusers' image", async () => {
  const { info, weightBytes } = await run("fp8", file("all.safetensors"), { tokenizer });
  assert.equal(info.className, "WanPipeline");
  assert.ok(weightBytes < 1.05 * sizeOf("all.safetensors"), `${weightBytes} bytes on the device`);
});

Deno.test("GGUF files of mixed types with an autoencoder from elsewhere give diffusers' image", async () => {
  const { info, weightBytes } = await run("gguf", file("transformer.gguf"), {
    textEncoder: file("text_encoder.gguf"),
    vae: file("all.safetensors"),
    tokenizer: folder,
  });
  assert.equal(info.precisions.textEncoder, "q8_0");
  const vaeBytes = 455_574;
  const files = sizeOf("transformer.gguf") + sizeOf("text_encoder.gguf") + vaeBytes;
  assert.ok(weightBytes < 1.05 * files, `${weightBytes} bytes on the device, ${files} in files`);
});
