import assert from "node:assert/strict";
import { assertClose } from "../../tests/support/golden.ts";
import { ModelRun, openTestDevice } from "../../tests/support/model_run.ts";
import { REQUEST, withPipeline } from "../../tests/support/pipeline_fixture.ts";
import { cfgZeroStar, classifierFree, withSkippedLayers, ZERO_STAR_GUIDANCE } from "./guidance.ts";

const golden: {
  shape: number[];
  scale: number;
  positive: number[];
  negative: number[];
  /** What guidance gives at the first two steps. */
  steps: [number[], number[]];
} = JSON.parse(
  Deno.readTextFileSync(
    new URL("../../tests/goldens/guidance/zero_star.json", import.meta.url),
  ),
);

Deno.test("ZERO_STAR_GUIDANCE gives what diffusers' guider gives, and nothing in the first step", async () => {
  const { shape, positive, negative, scale } = golden;
  const guidance = cfgZeroStar(scale).combined!;
  const device = await openTestDevice();
  try {
    const inputs = {
      positive: { shape, data: Float32Array.from(positive) },
      negative: { shape, data: Float32Array.from(negative) },
      settings: { shape: [1, 1, 1], data: Float32Array.from(guidance.settings(1)) },
    };
    using run = await ModelRun.prepare(
      device,
      undefined,
      inputs,
      (_, { positive, negative, settings }) => ({
        guided: ZERO_STAR_GUIDANCE.trace([positive!, negative!], settings!, { sample: positive! }),
      }),
    );
    await run.run();
    const expected = { shape, data: Float32Array.from(golden.steps[1]) };
    assertClose("guided", await run.read("guided"), expected, 1e-5);
    assert.deepEqual([guidance.weight(0), guidance.weight(1)], [0, 1]);
    assert.ok(golden.steps[0].every((value) => Math.abs(value) === 0));
  } finally {
    device.destroy();
  }
});

Deno.test("WanPipeline.generate() guides by CFG-Zero* in one pass or two, and leaves the first step out", () =>
  withPipeline(async ({ pipeline }) => {
    const request = { ...REQUEST, cfgZeroStar: true };
    const { latents } = await pipeline.generate(request);
    const apart = await pipeline.generate({ ...request, guidancePasses: "sequential" });
    const shape = [latents.length];
    assertClose("two passes", { shape, data: apart.latents }, { shape, data: latents }, 1e-4);
    assert.notDeepEqual((await pipeline.generate(REQUEST)).latents, latents);
    const one = await pipeline.generate({ ...request, numInferenceSteps: 1 });
    const other = await pipeline.generate({ ...request, numInferenceSteps: 1, prompt: "other" });
    assert.deepEqual(one.latents, other.latents, "noise");
  }));

Deno.test("WanPipeline.generate() spreads positions in time where RIFLEx is asked for", () =>
  withPipeline(async ({ pipeline }) => {
    const { latents } = await pipeline.generate(REQUEST);
    const spread = await pipeline.generate({ ...REQUEST, riflex: true });
    assert.notDeepEqual(spread.latents, latents);
    const still = { ...REQUEST, task: "T2I", numFrames: 1 } as const;
    const image = await pipeline.generate(still);
    assert.deepEqual((await pipeline.generate({ ...still, riflex: true })).latents, image.latents);
  }));

Deno.test("withSkippedLayers() adds scale · (p − k) between two steps", () => {
  const { weights } = withSkippedLayers(classifierFree(5, 2), { scale: 2 }, [2, 6]);
  const counting = Array.from({ length: 20 }, (_, i) => i).filter((i) => weights(i)[2] !== 0);
  assert.deepEqual(counting, [3, 4, 5]);
  assert.deepEqual([weights(3), weights(9)], [[7, -4, -2], [5, -4, 0]]);
});

Deno.test("WanPipeline.generate() guides away from what lacks layers, where that counts", () =>
  withPipeline(async ({ pipeline }) => {
    const request = { ...REQUEST, guidancePasses: "sequential" } as const;
    const { latents } = await pipeline.generate(request);
    const skipping = { skipGuidanceLayers: [0], skipLayerGuidanceStart: 0 };
    const never = await pipeline.generate({ ...request, ...skipping, skipLayerGuidanceStop: 0 });
    assert.deepEqual(never.latents, latents);
    const guided = await pipeline.generate({ ...request, ...skipping, skipLayerGuidanceStop: 1 });
    assert.notDeepEqual(guided.latents, latents);
    await assert.rejects(
      pipeline.generate({ ...request, skipGuidanceLayers: [99] }),
      /guide away from layer 99: the model has layers 0 to/,
    );
  }));
