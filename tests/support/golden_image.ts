/** Images of whole pipelines against those of the reference. */
import assert from "node:assert/strict";
import type { Pipeline, PipelineRequest } from "../../models/mod.ts";
import { assertClose, type Golden } from "./golden.ts";
import { checkMasked } from "./masked.ts";
import { psnr } from "./pixels.ts";

/** Largest error of latents after the last step, as a part of their largest magnitude: f32 against torch in f32. */
export const LATENT_GATE = 1e-4;

/** Gate of the design for a few steps, in dB. */
const MIN_PSNR = 50;

/**
 * Runs a request, and compares latents and pixels with those of a golden's call; of a masked one what is painted.
 */
export async function checkImage(
  golden: Golden,
  name: string,
  pipeline: Pipeline,
  request: PipelineRequest,
  gate = LATENT_GATE,
): Promise<void> {
  const { latents, frames } = await pipeline.generate(request);
  const expected = golden.tensor(name, "latents");
  assertClose("latents", { shape: expected.shape, data: latents }, expected, gate);
  assert.equal(frames.length, 1);
  const { data } = golden.tensor(name, "image");
  const decibels = request.mask ? checkMasked(frames[0]!, request, data) : psnr(frames[0]!, data);
  if (Deno.env.has("DENOISE_SHOW_ERRORS")) console.log(`${name}: PSNR ${decibels.toFixed(1)} dB`);
  assert.ok(decibels > MIN_PSNR, `PSNR is ${decibels.toFixed(1)} dB`);
}
