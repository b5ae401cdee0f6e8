/** Whole pipelines against diffusers: same folder, prompt and seed, from text to pixels. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { resize } from "../../media/resize.ts";
import { openPipeline, type PipelineRequest } from "../../models/mod.ts";
import { assertClose, Golden, type GoldenCall, type Values } from "../golden.ts";
import { textRequest } from "../golden_request.ts";
import { psnr } from "../pixels.ts";
import { openTestDevice } from "../model_run.ts";

/** f32 against torch in f32; weights as stored. Gates of the design: 50 dB after a few steps. */
const MIN_PSNR = 50;
const LATENT_GATE = 1e-3;

/** Frames of a call as the pipeline takes them: resized as Pillow does, each RGB in bytes. */
function images({ shape, data }: Values, width: number, height: number): Uint8Array[] {
  const [rows, columns] = shape.slice(-3) as [number, number];
  const size = rows * columns * 3;
  const bytes = Uint8Array.from(data);
  return Array.from({ length: bytes.length / size }, (_, i) => {
    const image = { width: columns, height: rows, data: bytes.slice(i * size, (i + 1) * size) };
    const isSame = columns === width && rows === height;
    return isSame ? image.data : resize(image, width, height, "lanczos").data;
  });
}

function requestOf(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const request = textRequest(call);
  const { width, height } = request;
  const given = (input: string) => images(golden.tensor(name, input), width, height);
  if (inputs.includes("image")) {
    return { ...request, task: "I2V", images: [{ width, height, data: given("image")[0]! }] };
  }
  if (!inputs.includes("video")) return request;
  return { ...request, task: "V2V", video: given("video"), strength: args["strength"] as number };
}

Deno.test("WanPipeline.generate() gives the same with sequential as with batched guidance", async () => {
  const golden = new Golden("wan/pipeline-t2v");
  const device = await openTestDevice();
  using pipeline = await openPipeline(golden.folder);
  try {
    await pipeline.load(device);
    const request = requestOf(golden, golden.call("image"));
    const batched = await pipeline.generate({ ...request, guidancePasses: "batched" });
    const sequential = await pipeline.generate({ ...request, guidancePasses: "sequential" });
    const shape = [batched.latents.length];
    assertClose(
      "latents",
      { shape, data: sequential.latents },
      { shape, data: batched.latents },
      1e-5,
    );
  } finally {
    device.destroy();
  }
});

/** Goldens, and where their model is when it does not lie beside them. */
const PIPELINES: readonly (readonly [name: string, model?: URL])[] = [
  ["wan/pipeline-t2v"],
  ["wan/pipeline-ti2v"],
  ["bundled", new URL("../../models/bundled", import.meta.url)],
];

for (const [name, model] of PIPELINES) {
  Deno.test(`WanPipeline.generate() gives the frames of diffusers: ${name}`, async (t) => {
    const golden = new Golden(name);
    const device = await openTestDevice();
    using pipeline = await openPipeline(model ? fileURLToPath(model) : golden.folder);
    try {
      await pipeline.load(device);
      for (const call of golden.calls) {
        await t.step(call.name, async () => {
          const { frames, latents } = await pipeline.generate(requestOf(golden, call));
          const expectedLatents = golden.tensor(call.name, "latents");
          assertClose(
            "latents",
            { shape: expectedLatents.shape, data: latents },
            expectedLatents,
            LATENT_GATE,
          );
          const expected = golden.tensor(call.name, "frames");
          assert.equal(frames.length, expected.shape.at(-4));
          const pixels = new Float32Array(expected.data.length);
          frames.forEach((frame, i) => pixels.set(frame, i * frame.length));
          const decibels = psnr(pixels, expected.data);
          if (Deno.env.get("DENOISE_SHOW_ERRORS")) {
            console.log(`${call.name}: PSNR ${decibels.toFixed(1)} dB`);
          }
          assert.ok(
            decibels > MIN_PSNR,
            `PSNR is ${decibels.toFixed(1)} dB, at least ${MIN_PSNR} are wanted`,
          );
        });
      }
    } finally {
      device.destroy();
    }
  });
}
