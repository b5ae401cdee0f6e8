/** Calls of diffusers' pipelines that make Wan's videos, as requests, and what came of them. */
import assert from "node:assert/strict";
import { crop } from "../../media/image.ts";
import { resize } from "../../media/resize.ts";
import type { InputImage, Pipeline, PipelineRequest } from "../../models/mod.ts";
import { assertClose, type Golden, type GoldenCall, type Values } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { psnr } from "../support/pixels.ts";

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

export function requestOf(golden: Golden, call: GoldenCall, visionSide?: number): PipelineRequest {
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

export async function assertCall(
  pipeline: Pipeline,
  golden: Golden,
  call: GoldenCall,
  changes: Partial<PipelineRequest> = {},
): Promise<void> {
  const { frames, latents } = await pipeline.generate({
    ...requestOf(golden, call, pipeline.info.visionSide),
    ...changes,
  });
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
}
