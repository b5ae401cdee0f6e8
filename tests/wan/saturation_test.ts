/** What a pipeline does about factors that f16 does not hold. */
import assert from "node:assert/strict";
import { saturateAlways, withMatrixUnits } from "../support/emulated_matrix_units.ts";
import { REQUEST, withPipeline } from "../support/pipeline_fixture.ts";

/** A GPU whose matrix units find every factor beyond f16, and compute nothing. */
const opening = {
  gpu: withMatrixUnits(navigator.gpu, saturateAlways),
  schedule: "gpu",
  operands: "f16",
} as const;

Deno.test("WanPipeline.generate() computes layers with f32 whose factors f16 does not hold, and says so", () =>
  withPipeline(async ({ device, pipeline }) => {
    const notes: string[] = [];
    const steps: string[] = [];
    const frames: Float32Array[] = [];
    const control = {
      onNote: (line: string) => notes.push(line),
      onFrame: (frame: Float32Array) => frames.push(frame),
      onProgress: ({ stage, step }: { stage: string; step: number }) =>
        steps.push(`${stage} ${step}`),
    };
    const { latents } = await pipeline.generate(REQUEST, control);
    const all = notes.join();
    for (
      const part of ["block.0.attention", "blocks.0.attn1.to_q.weight", "decoder.conv_in.weight"]
    ) {
      assert.ok(all.includes(part), `${part} is not among ${all}`);
    }
    const finished = steps.filter((step) => step === "denoise 3").length;
    assert.equal(
      finished,
      1,
      "what was denoised stays when the decoder's factors turn out too large",
    );
    const exact = await pipeline.generate({ ...REQUEST, quality: "exact" });
    assert.deepEqual(latents, exact.latents);
    assert.deepEqual(frames, exact.frames);
    const { length } = notes;
    assert.deepEqual((await pipeline.generate(REQUEST, control)).latents, latents);
    assert.equal(notes.length, length);
    assert.ok(device.allocatedBytes > 0);
  }, { opening }));
