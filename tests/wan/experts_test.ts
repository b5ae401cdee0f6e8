/** Two transformers in one pipeline: which is where, and which LoRAs change which. */
import assert from "node:assert/strict";
import type { AppliedLora, LoraComponent } from "../../models/lora/types.ts";
import type { Pipeline, PipelineRequest, PipelineResult } from "../../models/mod.ts";
import type { PipelineProgress } from "../../models/pipeline/types.ts";
import { DeviceTensor } from "../../runtime/mod.ts";
import { Golden } from "../support/golden.ts";
import { loraOf, randomTensor } from "../support/lora_reference.ts";
import { type Fixture, REQUEST, withPipeline } from "../support/pipeline_fixture.ts";

const { folder } = new Golden("wan/pipeline-t2v-experts");

/** Steps at 999, 857 and 600: one at high noise, two at low noise. */
const BOTH: PipelineRequest = { ...REQUEST, numFrames: 1 };
/** One step, at 999. */
const HIGH_ALONE: PipelineRequest = { ...BOTH, numInferenceSteps: 1 };

function lora(target: LoraComponent, ...targets: LoraComponent[]): AppliedLora {
  const changes = [target, ...targets].map((target) => ({
    target,
    module: "blocks.0.attn1.to_q",
    weight: [{
      kind: "low-rank" as const,
      scale: 1,
      down: randomTensor([4, 128], 1),
      up: randomTensor([128, 4], 2),
    }],
  }));
  return {
    key: [target, ...targets].join(),
    lora: loraOf(...changes),
    strength: 1,
    targets: [target, ...targets],
    mode: "dynamic",
  };
}

async function latents(
  { pipeline }: Fixture,
  request: PipelineRequest,
  ...loras: AppliedLora[]
): Promise<Float32Array> {
  return (await pipeline.generate({ ...request, loras })).latents;
}

/** A result, and in which order steps were taken and weights read for the stage behind them. */
async function readAheadOf(
  pipeline: Pipeline,
): Promise<[result: PipelineResult, events: string[]]> {
  const events: string[] = [];
  const { readAhead } = DeviceTensor.prototype;
  DeviceTensor.prototype.readAhead = function (isKept) {
    const event = isKept ? "copy" : "read";
    if (events.at(-1) !== event) events.push(event);
    readAhead.call(this, isKept);
  };
  try {
    const onProgress = ({ stage, step }: PipelineProgress) => {
      if (stage === "denoise") events.push(`step ${step}`);
    };
    return [await pipeline.generate(BOTH, { onProgress }), events];
  } finally {
    DeviceTensor.prototype.readAhead = readAhead;
  }
}

Deno.test("WanPipeline.generate() gives LoRAs to the experts that they are meant for", () =>
  withPipeline(async (fixture) => {
    const targets = fixture.pipeline.adaptable.map(({ target }) => target);
    assert.deepEqual(targets, ["transformer", "transformer_2", "text_encoder"]);
    const [first, second] = [lora("transformer"), lora("transformer_2")];
    const base = await latents(fixture, HIGH_ALONE);
    assert.deepEqual(await latents(fixture, HIGH_ALONE, second), base);
    assert.notDeepEqual(await latents(fixture, HIGH_ALONE, first), base);
    const plain = await latents(fixture, BOTH);
    assert.notDeepEqual(await latents(fixture, BOTH, second), plain);
    const both = await latents(fixture, BOTH, lora("transformer", "transformer_2"));
    assert.deepEqual(await latents(fixture, BOTH, first, second), both);
    assert.deepEqual(await latents(fixture, BOTH), plain);
  }, { folder }));

Deno.test("WanPipeline.generate() gives the same with one expert on the device at a time", async () => {
  let [expected, peak] = [new Float32Array(), 0];
  await withPipeline(async (fixture) => {
    expected = await latents(fixture, BOTH) as Float32Array<ArrayBuffer>;
    peak = fixture.device.peakBytes;
  }, { folder });
  const memory = { offloaded: new Set(["transformer", "transformer 2"]) };
  await withPipeline(async (fixture) => {
    const { device, pipeline } = fixture;
    const room = { target: device.target, availableBytes: peak, measure: () => peak };
    const { stages } = await pipeline.plan({ ...BOTH, promptTokens: 8 }, room, memory);
    const expertsOf = (name: string) =>
      stages.find((stage) => stage.name === name)!.components.map(({ name }) => name)
        .filter((name) => name.startsWith("transformer"));
    assert.deepEqual(expertsOf("denoise"), ["transformer"]);
    assert.deepEqual(expertsOf("denoise 2"), ["transformer 2"]);
    assert.deepEqual(await latents(fixture, BOTH), expected);
    // The first expert takes the first step, and the second one is read meanwhile.
    for (const [isUnified, event] of [[true, "read"], [false, "copy"]] as const) {
      Object.assign(device.adapter, { isUnified });
      const [again, events] = await readAheadOf(pipeline);
      assert.deepEqual(again.latents, expected);
      assert.deepEqual(events.slice(0, 3), ["step 0", event, "step 1"]);
    }
    assert.ok(device.peakBytes < peak, `${device.peakBytes} of ${peak} bytes`);
  }, { folder, memory });
});

Deno.test("WanPipeline.generate() tells progress and previews over the steps of both experts", () =>
  withPipeline(async ({ pipeline }) => {
    const steps: number[] = [];
    const shown: number[] = [];
    await pipeline.generate(BOTH, {
      previews: 3,
      onProgress: ({ stage, step, totalSteps }) => {
        if (stage !== "denoise") return;
        assert.equal(totalSteps, 3);
        steps.push(step);
      },
      onPreview: (_, index) => shown.push(index),
    });
    assert.deepEqual(steps, [0, 1, 2, 3]);
    assert.deepEqual(shown, [0, 1, 2]);
  }, { folder }));
