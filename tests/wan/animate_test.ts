/** Wan-Animate-2 against diffusers. */
import assert from "node:assert/strict";
import { viewLayout } from "../../models/checkpoints/layout_view.ts";
import { parseConfig } from "../../models/config.ts";
import { ANIMATE_TRANSFORMER_CONFIG } from "../../models/families/wan/animate/config.ts";
import { ANIMATE_WAN } from "../../models/families/wan/layouts.ts";
import { openModelFiles } from "../../models/checkpoints/open_model.ts";
import { WAN_ANIMATE } from "../../models/families/wan/animate/pipeline.ts";
import type { Variant } from "../../models/memory/model_memory.ts";
import type { ResidencyPlan } from "../../models/memory/residency.ts";
import { type DeviceOptions, elementwise, f32, Weights } from "../../runtime/mod.ts";
import { openFamily } from "../../models/pipeline/diffusion_pipeline.ts";
import { openPipeline, type PipelineProgress, type PipelineRequest } from "../../models/mod.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { ModelRun, openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";
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

/** Two clips. */
function clipsRequest(golden: Golden): PipelineRequest {
  const [width, height] = [32, 32];
  const frame = (step: number) =>
    Uint8Array.from({ length: width * height * 3 }, (_, i) => i * step % 256);
  return {
    ...textRequest(golden.call("clips")),
    ...{ task: "V2V", width, height, numFrames: 6, clipLen: 5 },
    images: [{ width, height, data: frame(7) }],
    video: [1, 2, 3, 4, 5, 6].map(frame),
  };
}

/** Numbers that the steps hold beside what they need, so that no other stage takes more. */
const BALLAST = 2 ** 20;

/** The family with one way to make a request, whose steps take the most memory. */
function withSteps(passes: Variant["passes"]): typeof WAN_ANIMATE {
  return {
    ...WAN_ANIMATE,
    shapeOf: (...given) => ({ ...WAN_ANIMATE.shapeOf(...given), passes: [passes] }),
    trace: (session, ...given) => {
      const generate = WAN_ANIMATE.trace(session, ...given);
      const stage = session.stages.find(({ name }) => name === "denoise")!;
      stage.program("ballast", { x: f32(BALLAST) }, ({ x }) => elementwise("x + 1.0", { x }));
      return generate;
    },
  };
}

/** Bytes by which budgets differ that are tried. */
const BUDGET_STEP = 2 ** 13;

/** Which states have memory of their own on the device during the steps, of those that could wait. */
function heldStates({ stages }: ResidencyPlan): number {
  const { own } = stages.find(({ stage }) => stage.name === "denoise")!;
  return own.filter(({ hasSource }) => hasSource).length;
}

/**
 * Makes two clips in one way.
 *
 * @param isRight whether a budget of the device leads to the plan that is wanted; there is no budget by default
 */
async function made(
  passes: Variant["passes"],
  opening: DeviceOptions,
  isRight?: (plan: ResidencyPlan) => boolean,
) {
  const golden = new Golden("wan/pipeline-animate");
  const request = clipsRequest(golden);
  using pipeline = await openFamily(withSteps(passes), await openModelFiles(golden.folder));
  const probe = await openTestDevice(opening);
  probe.destroy();
  const { runner } = pipeline.trace(probe.target, request);
  let plan = runner.plan({ budgetBytes: isRight ? 0 : Infinity });
  let maxBytes = plan.peakBytes;
  while (isRight && !isRight(plan)) plan = runner.plan({ budgetBytes: maxBytes += BUDGET_STEP });
  const device = await openTestDevice({ ...opening, ...isRight && { maxBytes } });
  // A software adapter would leave no host memory.
  Object.assign(device.adapter, { isUnified: false });
  try {
    await pipeline.load(device);
    device.resetPeak();
    const { frames, latents } = await pipeline.generate(request);
    if (!plan.isTogether) assert.equal(device.peakBytes, plan.peakBytes);
    return { result: { frames, latents }, plan };
  } finally {
    device.destroy();
  }
}

const isSlow = Deno.env.has("DENOISE_SLOW");

for (
  const [how, opening, ignore] of [
    ["", {}, false],
    [" with factors of f16; with DENOISE_SLOW", { schedule: "gpu", operands: "f16" }, !isSlow],
  ] as const
) {
  Deno.test({
    name:
      `WanAnimate2Pipeline.generate() gives the same bits where the driving video's states wait in host memory${how}`,
    ignore,
    fn: async () => {
      const kept = await made("sequential", opening);
      const isPartly = (plan: ResidencyPlan) => plan.waiting.size > 0 && heldStates(plan) > 0;
      for (const isRight of [isPartly, ...isSlow ? [() => true] : []]) {
        const { result, plan } = await made("streamed", opening, isRight);
        assert.deepEqual(result, kept.result);
        assert.ok(plan.waiting.size > 0);
        const { peakBytes } = plan.stages.find(({ stage }) => stage.name === "denoise")!;
        assert.equal(peakBytes, plan.peakBytes, "nothing else takes as much");
      }
    },
  });
}

Deno.test({
  name:
    "WanAnimate2Pipeline.generate() gives the same where the driving video's states are computed anew; with DENOISE_SLOW",
  ignore: !isSlow,
  fn: async () => {
    const { result: kept } = await made("sequential", {});
    const { result: anew } = await made("recomputed", {}, () => true);
    const values = (all: readonly Float32Array[]) => Float32Array.from(all.flatMap((x) => [...x]));
    assert.ok(psnr(values(anew.frames), values(kept.frames)) >= 100);
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
