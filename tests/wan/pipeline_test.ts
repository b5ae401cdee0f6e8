/** Whole pipelines against diffusers: same folder, prompt and seed, from text to pixels. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { crop } from "../../media/image.ts";
import { resize } from "../../media/resize.ts";
import { type InputImage, openPipeline, type PipelineRequest } from "../../models/mod.ts";
import { assertClose, Golden, type GoldenCall, type Values } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { psnr } from "../support/pixels.ts";
import { openTestDevice } from "../support/model_run.ts";

/** f32 against torch in f32; weights as stored. Gates of the design: 50 dB after a few steps. */
const MIN_PSNR = 50;
const LATENT_GATE = 1e-3;

/** An input of a call, each image in bytes as it came. */
function stored({ shape, data }: Values): InputImage[] {
  const [height, width] = shape.slice(-3) as [number, number];
  const size = height * width * 3;
  const bytes = Uint8Array.from(data);
  return Array.from(
    { length: bytes.length / size },
    (_, i) => ({ width, height, data: bytes.slice(i * size, (i + 1) * size) }),
  );
}

/** The same as the pipeline takes them: resized as Pillow does. */
function stretched(image: InputImage, width: number, height: number): InputImage {
  const isSame = image.width === width && image.height === height;
  return isSame ? image : resize(image, width, height, "lanczos");
}

/** As CLIP's preprocessing does it: the shorter side to the encoder's, then the middle. */
function seen(image: InputImage, side: number): Uint8Array {
  const short = Math.min(image.width, image.height);
  const scaled = (length: number) => Math.floor(side * length / short);
  const { width, height, data } = resize(
    image,
    scaled(image.width),
    scaled(image.height),
    "bicubic",
  );
  const [left, top] = [Math.floor((width - side) / 2), Math.floor((height - side) / 2)];
  return crop({ width, height, data }, left, top, side, side).data;
}

function requestOf(golden: Golden, call: GoldenCall, visionSide?: number): PipelineRequest {
  const { name, args, inputs } = call;
  const request = textRequest(call);
  const { width, height } = request;
  const given = (input: string) =>
    inputs.includes(input)
      ? stored(golden.tensor(name, input)).map((image) => ({
        ...stretched(image, width, height),
        ...(visionSide && { vision: seen(image, visionSide) }),
      }))
      : [];
  const scale = args["conditioning_scale"] as number | number[] | undefined;
  const guidanceScale2 = args["guidance_scale_2"] as number | undefined;
  const settings = {
    ...request,
    ...(guidanceScale2 !== undefined && { guidanceScale2 }),
    ...(scale !== undefined && { controlScale: [scale].flat() }),
    ...(inputs.includes("reference_images") && {
      references: stored(golden.tensor(name, "reference_images")),
    }),
  };
  const images = [...given("image"), ...given("last_image")];
  if (images.length > 0) return { ...settings, task: "I2V", images };
  if (!inputs.includes("video")) return settings;
  const masks = given("mask").map(({ data }) => data.filter((_, i) => i % 3 === 0));
  return {
    ...settings,
    task: "V2V",
    video: given("video").map(({ data }) => data),
    ...(masks.length > 0 && { mask: masks }),
    ...(args["strength"] !== undefined && { strength: args["strength"] as number }),
  };
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

Deno.test("WanPipeline.generate() brings references of VACE to whole latents before they are fitted, as diffusers does", async () => {
  const golden = new Golden("wan/pipeline-vace");
  const device = await openTestDevice();
  using pipeline = await openPipeline(golden.folder);
  try {
    await pipeline.load(device);
    const { references: [image] = [], ...request } = requestOf(golden, golden.call("references"));
    const odd = resize(image!, 29, 37, "bicubic");
    const first = await pipeline.generate({ ...request, references: [odd] });
    const second = await pipeline.generate({ ...request, references: [resize(odd, 24, 32)] });
    assert.deepEqual(first.latents, second.latents);
  } finally {
    device.destroy();
  }
});

/** Goldens, and where their model is when it does not lie beside them. */
const PIPELINES: readonly (readonly [name: string, model?: URL])[] = [
  ["wan/pipeline-t2v"],
  ["wan/pipeline-ti2v"],
  ["wan/pipeline-t2v-experts"],
  ["wan/pipeline-i2v-experts"],
  ["wan/pipeline-i2v"],
  ["wan/pipeline-flf2v"],
  ["wan/pipeline-vace"],
  ["wan/pipeline-vace-experts"],
  ["bundled", new URL("../../models/bundled", import.meta.url)],
];

for (const [name, model] of PIPELINES) {
  Deno.test(`WanPipeline.generate() gives the frames of diffusers: ${name}`, async (t) => {
    const golden = new Golden(name);
    const device = await openTestDevice({}, model ? "usual" : "short");
    using pipeline = await openPipeline(model ? fileURLToPath(model) : golden.folder);
    try {
      await pipeline.load(device);
      for (const call of golden.calls) {
        await t.step(call.name, async () => {
          const { frames, latents } = await pipeline.generate(
            requestOf(golden, call, pipeline.info.visionSide),
          );
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
