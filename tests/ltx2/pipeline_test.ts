/** Whole LTX-2 pipelines against diffusers: same folder, prompt, image and seed, from text to pixels and sound. */
import assert from "node:assert/strict";
import type { Pipeline, PipelineRequest } from "../../models/mod.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { psnr } from "../support/pixels.ts";

/** Gates of f32 against torch in f32. */
const MIN_PSNR = 50;
const MIN_SNR = 40;
const LATENT_GATE = 1e-3;

export function requestOf(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const number = (key: string) => args[key] as number;
  const { width, height, ...request } = textRequest(call);
  return {
    ...request,
    width,
    height,
    fps: number("frame_rate"),
    maxSequenceLength: number("max_sequence_length"),
    ...(number("stg_scale") > 0 && {
      stgScale: number("stg_scale"),
      stgBlocks: args["spatio_temporal_guidance_blocks"] as number[],
    }),
    ...(number("audio_stg_scale") > 0 && { audioStgScale: number("audio_stg_scale") }),
    modalityScale: number("modality_scale"),
    guidanceRescale: number("guidance_rescale"),
    audioGuidanceScale: number("audio_guidance_scale"),
    audioModalityScale: number("audio_modality_scale"),
    audioGuidanceRescale: number("audio_guidance_rescale"),
    ...(args["sigmas"] !== undefined && { sigmas: args["sigmas"] as number[] }),
    ...(inputs.includes("image") && {
      task: "I2V" as const,
      images: [{ width, height, data: Uint8Array.from(golden.tensor(name, "image").data) }],
    }),
  };
}

async function check(golden: Golden, pipeline: Pipeline, call: GoldenCall): Promise<void> {
  const { frames, latents, audio } = await pipeline.generate(requestOf(golden, call));
  const expected = golden.tensor(call.name, "latents");
  assertClose("latents", { shape: expected.shape, data: latents }, expected, LATENT_GATE);
  const video = golden.tensor(call.name, "frames");
  assert.equal(frames.length, video.shape[0]);
  const pixels = Float32Array.from(frames.flatMap((frame) => Array.from(frame)));
  const likeness = psnr(pixels, Float32Array.from(video.data));
  const sound = golden.tensor(call.name, "audio");
  assert.ok(audio);
  assert.deepEqual([audio.channels.length, audio.channels[0]!.length], sound.shape);
  const heard = audio.channels.flatMap((channel) => Array.from(channel));
  const noise = heard.reduce((sum, value, i) => sum + (value - sound.data[i]!) ** 2, 0);
  const signal = heard.reduce((sum, _, i) => sum + sound.data[i]! ** 2, 0);
  const clearness = 10 * Math.log10(signal / noise);
  if (Deno.env.get("DENOISE_SHOW_ERRORS")) {
    console.log(`${call.name}: ${likeness.toFixed(1)} dB, sound ${clearness.toFixed(1)} dB`);
  }
  assert.ok(likeness >= MIN_PSNR, `${call.name}: ${likeness} dB`);
  assert.ok(clearness >= MIN_SNR, `${call.name}: sound ${clearness} dB`);
}

for (const name of ["ltx2/pipeline23", "ltx2/pipeline"]) {
  const golden = new Golden(name);
  Deno.test(`LTX2Pipeline.generate() gives the latents, frames and sound of diffusers: ${name}`, async (t) => {
    await withPipeline(async ({ pipeline }) => {
      for (const call of golden.calls.filter((call) => call.name !== "adapted")) {
        await t.step(call.name, () => check(golden, pipeline, call));
      }
    }, { folder: golden.folder });
  });
}
