/** What a request gives on the way and at its end; what the pixels must be is tested in `pipeline_test.ts`. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { REQUEST, withPipeline } from "../support/pipeline_fixture.ts";
import type {
  PipelineControl,
  PipelineProgress,
  PipelineRequest,
} from "../../models/pipeline/types.ts";

/** An image of the request's size, another one for every `shade`. */
function gradient(shade: number): Uint8Array {
  const { width, height } = REQUEST;
  return Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * 7 + shade * 31) % 256);
}

function given(shade: number) {
  return { width: REQUEST.width, height: REQUEST.height, data: gradient(shade) };
}

const CLIP: PipelineRequest = {
  ...REQUEST,
  task: "V2V",
  video: Array.from({ length: 9 }, (_, i) => gradient(i)),
  numFrames: 9,
  strength: 0.7,
};

Deno.test("WanPipeline.generate() hands out each latent frame's frames before it decodes the next", () =>
  withPipeline(async ({ pipeline }) => {
    const request = { ...REQUEST, numFrames: 9 };
    const whole = await pipeline.generate(request);
    assert.equal(whole.frames.length, 9);
    const frames: Float32Array[] = [];
    const counts: number[] = [];
    const streamed = await pipeline.generate(request, {
      onFrame: (frame) => frames.push(frame),
      onProgress: ({ stage }) => stage === "decode" && counts.push(frames.length),
    });
    assert.deepEqual(frames, whole.frames);
    assert.deepEqual(streamed.frames, []);
    assert.deepEqual(counts, [0, 1, 5, 9]);
  }));

Deno.test("WanPipeline.generate() changes an image by a video of two latent frames, whose last frame it gives", () =>
  withPipeline(async ({ pipeline }) => {
    const images = [given(0)];
    const video = await pipeline.generate({ ...REQUEST, task: "I2V", images, numFrames: 5 });
    const edit = await pipeline.generate({ ...REQUEST, task: "TI2I", images, numFrames: 1 });
    assert.deepEqual(edit.frames, video.frames.slice(-1));
    const seen: Float32Array[] = [];
    await pipeline.generate({ ...REQUEST, task: "TI2I", images, numFrames: 1 }, {
      onFrame: (frame) => seen.push(frame),
    });
    assert.deepEqual(seen, edit.frames);
  }));

Deno.test("WanPipeline.generate() edits what a mask leaves it, and nothing else", () =>
  withPipeline(async ({ pipeline }) => {
    const { width, height } = REQUEST;
    const images = [given(0)];
    const mask = [new Uint8Array(width * height).map((_, i) => i % width < width / 2 ? 255 : 0)];
    const request = { ...REQUEST, task: "TI2I" as const, images, mask, strength: 1, numFrames: 1 };
    const { frames: [frame] } = await pipeline.generate(request);
    const isPainted = (i: number) => Math.floor(i / 3) % width < width / 2;
    const changed = Array.from(
      frame!,
      (value, i) => Math.abs(value * 255 - images[0]!.data[i]!),
    );
    assert.ok(changed.every((change, i) => isPainted(i) || change < 1e-4));
    assert.ok(changed.filter((change, i) => isPainted(i) && change > 2).length > 100);
    for (
      const [change, message] of [
        [{ mask: [...mask, ...mask] }, /Cannot do TI2I with 2 masks: omit them/],
        [{ mask: [mask[0]!.subarray(1)] }, /Cannot use a mask of \d+ bytes/],
        [{ task: "I2V" }, /Cannot do I2V with 1 masks/],
      ] as const
    ) {
      await assert.rejects(pipeline.generate({ ...request, ...change }), {
        name: "RangeError",
        message,
      });
    }
  }));

Deno.test("WanPipeline.generate() lets a short video stand still at its end", () =>
  withPipeline(async ({ pipeline }) => {
    const short = await pipeline.generate({ ...CLIP, video: CLIP.video!.slice(0, 7) });
    const last = CLIP.video![6]!;
    const full = await pipeline.generate({
      ...CLIP,
      video: [...CLIP.video!.slice(0, 7), last, last],
    });
    assert.equal(short.frames.length, 9);
    assert.deepEqual(short.frames, full.frames);
  }));

Deno.test("WanPipeline.generate() takes fewer steps for less strength, and keeps programs apart that do", () =>
  withPipeline(async ({ pipeline }) => {
    const run = async (strength: number, numInferenceSteps: number) => {
      const seen: PipelineProgress[] = [];
      const request = { ...CLIP, strength, numInferenceSteps };
      const { latents } = await pipeline.generate(request, { onProgress: (p) => seen.push(p) });
      return { latents, steps: seen.findLast(({ stage }) => stage === "denoise")!.totalSteps };
    };
    const half = await run(0.5, 6);
    const all = await run(1, 3);
    assert.deepEqual([half.steps, all.steps], [3, 3]);
    assert.notDeepEqual(half.latents, all.latents);
    assert.deepEqual(await run(0.5, 6), half);
  }));

Deno.test("WanPipeline.generate() stops between the frames that it encodes and decodes when cancelled", () =>
  withPipeline(async ({ device, pipeline }) => {
    const { latents } = await pipeline.generate(CLIP);
    for (const stage of ["encode", "decode"] as const) {
      for (const step of [1, 2]) {
        let reached = Infinity;
        const control: PipelineControl = {
          onProgress: (progress) => {
            if (progress.stage === stage && progress.step === step) {
              reached = device.counters.submits;
            }
          },
          isCancelled: () => device.counters.submits >= reached,
        };
        await assert.rejects(pipeline.generate(CLIP, control), { name: "AbortError" });
        assert.ok(device.counters.submits - reached <= 2, `${stage} ${step}`);
      }
    }
    assert.deepEqual((await pipeline.generate(CLIP)).latents, latents);
  }, { submitBudget: { flops: 3e6, bytes: 3e6 } }));

for (
  const [name, request] of [
    ["a video from text", REQUEST],
    ["a video from an image", { ...REQUEST, task: "I2V", images: [given(1)] }],
    ["one pass without guidance", { ...REQUEST, guidanceScale: 1 }],
    ["two passes of guidance", { ...REQUEST, guidancePasses: "sequential" }],
    ["a video from a video", CLIP],
  ] as const
) {
  Deno.test(`WanPipeline.generate() gives the same bits with previews as without: ${name}`, () =>
    withPipeline(async ({ pipeline }) => {
      const plain = await pipeline.generate({ ...request, numInferenceSteps: 5 });
      for (const previews of request === REQUEST ? [1, 3, 9] : [3]) {
        const indices: number[] = [];
        const shown = await pipeline.generate({ ...request, numInferenceSteps: 5 }, {
          previews,
          onPreview: (frame, index) => {
            indices.push(index);
            assert.equal(frame.length, REQUEST.width * REQUEST.height * 3);
            assert.ok(frame.every((value) => value >= 0 && value <= 1));
          },
        });
        assert.deepEqual(shown.latents, plain.latents);
        assert.deepEqual(shown.frames, plain.frames);
        const steps = request.task === "V2V" ? 3 : 5;
        assert.deepEqual(indices, Array.from({ length: Math.min(previews, steps) }, (_, i) => i));
      }
    }));
}

Deno.test("WanPipeline.generate() shows in the preview after its last step what it gives", () => {
  const folder = fileURLToPath(new URL("../../models/bundled", import.meta.url));
  return withPipeline(async ({ pipeline }) => {
    const shown: Float32Array[] = [];
    const request = { ...REQUEST, task: "T2I", numFrames: 1, numInferenceSteps: 4 } as const;
    const { frames } = await pipeline.generate(request, {
      previews: 4,
      onPreview: (frame) => shown.push(frame),
    });
    assert.equal(shown.length, 4);
    const differences = shown.map((frame) =>
      frame.reduce((sum, value, i) => sum + Math.abs(value - frames[0]![i]!), 0) / frame.length
    );
    // The last of 4 steps goes to sigma 0: what it predicts is the result.
    assert.ok(differences[3]! < 1e-5, `${differences}`);
    assert.ok(differences[0]! > differences[3]!, `${differences}`);
  }, { folder });
});

Deno.test("WanPipeline.generate() reuses velocities for quality high only, and stays close to lossless", () => {
  const folder = fileURLToPath(new URL("../../models/bundled", import.meta.url));
  return withPipeline(async ({ device, pipeline }) => {
    const request = {
      ...REQUEST,
      task: "T2I",
      width: 64,
      height: 64,
      numFrames: 1,
      numInferenceSteps: 20,
    } as const;
    const run = async (quality: "exact" | "lossless" | "high") => {
      // What the prompts give is kept: the second run is nothing but steps.
      await pipeline.generate({ ...request, quality, seed: 9 });
      const { submits } = device.counters;
      const { frames: [frame] } = await pipeline.generate({ ...request, quality });
      return { frame: frame!, submits: device.counters.submits - submits };
    };
    const [exact, lossless, high] = [await run("exact"), await run("lossless"), await run("high")];
    assert.deepEqual(exact, lossless);
    assert.ok(high.submits < 0.85 * lossless.submits);
    const squares = high.frame.reduce((sum, x, i) => sum + (x - lossless.frame[i]!) ** 2, 0);
    const decibels = -10 * Math.log10(squares / high.frame.length);
    assert.ok(decibels > 30, `${decibels.toFixed(1)} dB`);
    // Small budgets make a submit of every piece of work.
  }, { folder, submitBudget: { flops: 5e7, bytes: 5e7 } });
});
