import assert from "node:assert/strict";
import { FAKE_INFO } from "../tests/fakes/engine.ts";
import { toPipelineRequest } from "./pipeline_request.ts";
import type { GenerateRequest, ModelInfo } from "./types.ts";

const PICTURES: ModelInfo = {
  ...FAKE_INFO,
  supportedTaskTypes: ["T2I", "T2V", "I2V", "TI2I", "V2V"],
  defaults: { ...FAKE_INFO.defaults, numFrames: 1, negativePrompt: "dark" },
  taskDefaults: { T2V: { numFrames: 9 }, I2V: { numFrames: 13 }, V2V: { strength: 0.8 } },
};
/** One that makes clips where nothing is said. */
const CLIPS: ModelInfo = {
  ...PICTURES,
  supportedTaskTypes: ["T2I", "T2V", "I2V", "V2V"],
  defaults: { ...PICTURES.defaults, numFrames: 81 },
  taskDefaults: {},
};
const REQUEST: GenerateRequest = {
  prompt: "a red circle",
  width: 4,
  height: 2,
  seed: 1,
  numInferenceSteps: 3,
  guidanceScale: 2,
};
const picture = { width: 4, height: 2, data: new Uint8Array(24) };

Deno.test("toPipelineRequest() finds the task in the inputs, and the model's settings for it", () => {
  const [images, video] = [[picture], [picture, picture]];
  const cases: [ModelInfo, Partial<GenerateRequest>, task: string, numFrames: number][] = [
    [PICTURES, {}, "T2I", 1],
    [PICTURES, { images: [], video: [] }, "T2I", 1],
    [PICTURES, { numFrames: 5 }, "T2V", 5],
    [PICTURES, { taskType: "T2V" }, "T2V", 9],
    [PICTURES, { images }, "TI2I", 1],
    [PICTURES, { images, numFrames: 5 }, "I2V", 5],
    [PICTURES, { images, taskType: "I2V" }, "I2V", 13],
    [PICTURES, { video }, "V2V", 2],
    [PICTURES, { video, numFrames: 5 }, "V2V", 5],
    [CLIPS, {}, "T2V", 81],
    [CLIPS, { numFrames: 1 }, "T2I", 1],
    [CLIPS, { taskType: "T2I" }, "T2I", 1],
    [CLIPS, { images }, "I2V", 81],
    [CLIPS, { images, numFrames: 1 }, "I2V", 1],
  ];
  for (const [info, change, task, numFrames] of cases) {
    const result = toPipelineRequest({ ...REQUEST, ...change }, info);
    assert.deepEqual([result.task, result.numFrames], [task, numFrames], JSON.stringify(change));
    assert.equal(result.negativePrompt, "dark");
    assert.deepEqual(result.images, change.images?.length ? change.images : undefined);
    assert.deepEqual(result.video, change.video?.length ? [picture.data, picture.data] : undefined);
  }
});

Deno.test("toPipelineRequest() gives a strength to what is made after a clip, and to tasks that have one", () => {
  const strengthOf = (change: Partial<GenerateRequest>, info = PICTURES) =>
    toPipelineRequest({ ...REQUEST, ...change }, info).strength;
  assert.equal(strengthOf({ video: [picture] }), 0.8);
  assert.equal(strengthOf({ video: [picture], strength: 0.25 }), 0.25);
  assert.equal(strengthOf({ video: [picture] }, CLIPS), 1);
  assert.equal(strengthOf({ strength: 0.25 }), undefined);
  const changing = { ...PICTURES, taskDefaults: { TI2I: { strength: 0.6 } } };
  const change = { taskType: "TI2I" as const, images: [picture] };
  assert.equal(strengthOf(change, changing), 0.6);
  assert.equal(strengthOf({ ...change, strength: 0.3 }, changing), 0.3);
  assert.equal(strengthOf({ strength: 0.3 }, changing), undefined);
});

Deno.test("toPipelineRequest() leaves pictures their own sizes where the model does", () => {
  const imageLimits = { multiple: 2, maxPixels: 64, minSide: 2, maxAspect: 8 };
  const info = { ...PICTURES, maxImages: 2, imageLimits };
  const images = [picture, { width: 2, height: 6, data: new Uint8Array(36) }];
  const result = toPipelineRequest({ ...REQUEST, width: 8, height: 8, images }, info);
  assert.deepEqual(result.images, images);
});

Deno.test("toPipelineRequest() refuses what the model cannot do with the inputs", () => {
  const cases: [Partial<GenerateRequest>, RegExp][] = [
    [{ taskType: "I2M" }, /Cannot do I2M: this model does T2I, T2V, I2V, TI2I, V2V; choose one/],
    [{ taskType: "T2I", numFrames: 5 }, /Cannot do T2I with 5 frames: a picture has 1/],
    [{ images: [picture, picture] }, /Cannot use 2 pictures: this model takes 1 at a time/],
    [{ images: [picture], width: 8 }, /a picture of 4x2: the result has 8x2; scale it first/],
    [{ video: [picture], height: 4 }, /a picture of 4x2: the result has 4x4/],
    [{ video: [picture], strength: 0 }, /strength 0: it must be above 0/],
    [{ video: [picture], strength: 1.5 }, /strength 1.5: it must be above 0 and at most 1/],
  ];
  for (const [change, message] of cases) {
    const refused = () => toPipelineRequest({ ...REQUEST, ...change }, PICTURES);
    assert.throws(refused, { name: "RangeError", message });
  }
});
