/** Wan-Animate-2 against diffusers. */
import assert from "node:assert/strict";
import { viewLayout } from "../../models/checkpoints/layout_view.ts";
import { parseConfig } from "../../models/config.ts";
import { ANIMATE_TRANSFORMER_CONFIG } from "../../models/families/wan/animate/config.ts";
import { ANIMATE_WAN } from "../../models/families/wan/layouts.ts";
import { Weights } from "../../runtime/mod.ts";
import type { DiffusionPipeline } from "../../models/pipeline/diffusion_pipeline.ts";
import { openPipeline, type PipelineProgress, type PipelineRequest } from "../../models/mod.ts";
import { assertClose, Golden, type GoldenCall } from "../golden.ts";
import { textRequest } from "../golden_request.ts";
import { ModelRun, openTestDevice } from "../model_run.ts";
import { psnr } from "../pixels.ts";
import { animateInputs, animateVelocity } from "./animate_velocity.ts";

for (const name of ["transformer-animate-tiny", "transformer-animate-hd128"]) {
  for (const isAnew of [false, true]) {
    const how = isAnew ? "computed with it" : "at hand";
    Deno.test(`animateTransformer() gives the velocity of ${name}, what the driving video is ${how}`, async (t) => {
      const golden = new Golden(`wan/${name}`);
      const device = await openTestDevice();
      using checkpoint = golden.checkpoint();
      const weights = new Weights(viewLayout(checkpoint, ANIMATE_WAN));
      const config = parseConfig(ANIMATE_TRANSFORMER_CONFIG, golden.config(), "config.json");
      try {
        for (const call of golden.calls) {
          const isNegative = call.name === "negative";
          await t.step(call.name, async () => {
            const inputs = animateInputs(golden, call, config);
            using run = await ModelRun.prepare(device, weights, inputs, (graph, given) => ({
              sample: animateVelocity(graph, config, weights, given, { isNegative, isAnew }),
            }));
            await run.run();
            assertClose(name, await run.read("sample"), golden.tensor(call.name, "sample"), 1e-4);
          });
        }
        assert.deepEqual(weights.unused, []);
      } finally {
        weights.destroy();
        device.destroy();
      }
    });
  }
}

/** Gates of the design: f32 against torch in f32. */
const MIN_PSNR = 50;
const LATENT_GATE = 1e-3;

function requestOf(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, args } = call;
  const request = textRequest(call);
  const { width, height } = request;
  const size = width * height * 3;
  const bytes = (input: string) => Uint8Array.from(golden.tensor(name, input).data);
  const video = bytes("video");
  return {
    ...request,
    task: "V2V",
    clipLen: args["clip_len"] as number,
    images: [{ width, height, data: bytes("image") }],
    video: Array.from(
      { length: video.length / size },
      (_, i) => video.subarray(i * size, (i + 1) * size),
    ),
  };
}

Deno.test({
  name:
    "WanAnimate2Pipeline.generate() gives the same where the driving video's states do not fit; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async () => {
    const golden = new Golden("wan/pipeline-animate");
    const [width, height] = [64, 64];
    const frame = (step: number) =>
      Uint8Array.from({ length: width * height * 3 }, (_, i) => i * step % 256);
    const request: PipelineRequest = {
      ...textRequest(golden.call("clips")),
      ...{ task: "V2V", width, height, numFrames: 6, clipLen: 9 },
      images: [{ width, height, data: frame(7) }],
      video: [1, 2, 3, 4, 5, 6].map(frame),
    };
    const make = async (maxBytes?: number) => {
      const device = await openTestDevice(maxBytes === undefined ? {} : { maxBytes });
      using pipeline = await openPipeline(golden.folder);
      try {
        await pipeline.load(device);
        const peakOf = (passes: "sequential" | "recomputed") => {
          const { runner } = (pipeline as DiffusionPipeline)
            .trace(device.target, request, {}, passes);
          return runner.plan({ budgetBytes: Infinity }).peakBytes;
        };
        const { frames } = await pipeline.generate(request);
        return { frames, kept: peakOf("sequential"), anew: peakOf("recomputed") };
      } finally {
        device.destroy();
      }
    };
    const { frames, kept, anew } = await make();
    assert.ok(anew < kept, `${anew} bytes, and ${kept} with all states`);
    const small = await make(kept - 1);
    const values = (all: readonly Float32Array[]) => Float32Array.from(all.flatMap((x) => [...x]));
    assert.ok(psnr(values(small.frames), values(frames)) >= 100);
  },
});

Deno.test("WanAnimate2Pipeline.generate() gives the frames of diffusers", async (t) => {
  const golden = new Golden("wan/pipeline-animate");
  const device = await openTestDevice();
  using pipeline = await openPipeline(golden.folder);
  try {
    await pipeline.load(device);
    for (const call of golden.calls) {
      await t.step(call.name, async () => {
        const progress: PipelineProgress[] = [];
        const { frames, latents } = await pipeline.generate(requestOf(golden, call), {
          onProgress: (step) => progress.push(step),
        });
        const expected = golden.tensor(call.name, "latents");
        assertClose("latents", { shape: expected.shape, data: latents }, expected, LATENT_GATE);
        const { shape, data } = golden.tensor(call.name, "frames");
        assert.equal(frames.length, shape[0]);
        const decibels = psnr(Float32Array.from(frames.flatMap((frame) => [...frame])), data);
        if (Deno.env.get("DENOISE_SHOW_ERRORS")) console.log(`${call.name}: ${decibels} dB`);
        assert.ok(decibels >= MIN_PSNR, `${decibels} dB`);
        const denoising = progress.filter(({ stage }) => stage === "denoise");
        const { step, totalSteps } = denoising.at(-1)!;
        assert.equal(step, totalSteps);
        assert.equal(totalSteps, call.name === "clips" ? 4 : 3);
      });
    }
  } finally {
    device.destroy();
  }
});
