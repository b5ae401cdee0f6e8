import assert from "node:assert/strict";
import { FAKE_INFO } from "../tests/fakes/model_info.ts";
import { toPipelineRequest } from "./pipeline_request.ts";
import type { GenerateRequest, ModelInfo } from "./types.ts";

const IMAGES: ModelInfo = {
  ...FAKE_INFO,
  supportedTasks: ["T2I", "T2V", "I2V", "TI2I", "V2V"],
  defaults: { ...FAKE_INFO.defaults, numFrames: 1, negativePrompt: "dark" },
  taskDefaults: { T2V: { numFrames: 9 }, I2V: { numFrames: 13 }, V2V: { strength: 0.8 } },
};
/** A model that makes videos where nothing is said. */
const VIDEOS: ModelInfo = {
  ...IMAGES,
  supportedTasks: ["T2I", "T2V", "I2V", "V2V"],
  defaults: { ...IMAGES.defaults, numFrames: 81 },
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
const image = { width: 4, height: 2, data: new Uint8Array(24) };

Deno.test("toPipelineRequest() finds the task in the inputs, and the model's settings for it", () => {
  const [images, video] = [[image], [image, image]];
  const cases: [ModelInfo, Partial<GenerateRequest>, task: string, numFrames: number][] = [
    [IMAGES, {}, "T2I", 1],
    [IMAGES, { images: [], video: [] }, "T2I", 1],
    [IMAGES, { numFrames: 5 }, "T2V", 5],
    [IMAGES, { taskType: "T2V" }, "T2V", 9],
    [IMAGES, { images }, "TI2I", 1],
    [IMAGES, { images, numFrames: 5 }, "I2V", 5],
    [IMAGES, { images, taskType: "I2V" }, "I2V", 13],
    [IMAGES, { video }, "V2V", 2],
    [IMAGES, { video, numFrames: 5 }, "V2V", 5],
    [VIDEOS, {}, "T2V", 81],
    [VIDEOS, { numFrames: 1 }, "T2I", 1],
    [VIDEOS, { taskType: "T2I" }, "T2I", 1],
    [VIDEOS, { images }, "I2V", 81],
    [VIDEOS, { images, numFrames: 1 }, "I2V", 1],
  ];
  for (const [info, change, task, numFrames] of cases) {
    const result = toPipelineRequest({ ...REQUEST, ...change }, info);
    assert.deepEqual([result.task, result.numFrames], [task, numFrames], JSON.stringify(change));
    assert.equal(result.negativePrompt, "dark");
    assert.deepEqual(result.images, change.images?.length ? change.images : undefined);
    assert.deepEqual(result.video, change.video?.length ? [image.data, image.data] : undefined);
  }
});

Deno.test("toPipelineRequest() gives a strength to what is made after a video, and to tasks that have one", () => {
  const strengthOf = (change: Partial<GenerateRequest>, info = IMAGES) =>
    toPipelineRequest({ ...REQUEST, ...change }, info).strength;
  assert.equal(strengthOf({ video: [image] }), 0.8);
  assert.equal(strengthOf({ video: [image], strength: 0.25 }), 0.25);
  assert.equal(strengthOf({ video: [image] }, VIDEOS), 1);
  assert.equal(strengthOf({ strength: 0.25 }), undefined);
  const changing = { ...IMAGES, taskDefaults: { TI2I: { strength: 0.6 } } };
  const change = { taskType: "TI2I" as const, images: [image] };
  assert.equal(strengthOf(change, changing), 0.6);
  assert.equal(strengthOf({ ...change, strength: 0.3 }, changing), 0.3);
  assert.equal(strengthOf({ strength: 0.3 }, changing), undefined);
  const masking = { ...changing, inpainting: { strength: 0.9 } };
  assert.equal(strengthOf({ ...change, mask: [image] }, masking), 0.9);
  assert.equal(strengthOf({ ...change, mask: [image], strength: 0.2 }, masking), 0.2);
  assert.equal(strengthOf(change, masking), 0.6);
});

Deno.test("toPipelineRequest() leaves images their own sizes where the model does", () => {
  const imageLimits = { multiple: 2, maxPixels: 64, minSide: 2, maxAspect: 8 };
  const info = { ...IMAGES, maxImages: 2, maxEditImages: 2, imageLimits };
  const images = [image, { width: 2, height: 6, data: new Uint8Array(36) }];
  const result = toPipelineRequest({ ...REQUEST, width: 8, height: 8, images }, info);
  assert.deepEqual(result.images, images);
});

Deno.test("toPipelineRequest() refuses what the model cannot do with the inputs", () => {
  const cases: [Partial<GenerateRequest>, RegExp][] = [
    [{ taskType: "I2M" }, /Cannot do I2M: this model does T2I, T2V, I2V, TI2I, V2V; choose one/],
    [{ taskType: "T2I", numFrames: 5 }, /Cannot do T2I with 5 frames: an image has 1/],
    [{ images: [image, image] }, /Cannot use 2 images: this model takes 1 at a time/],
    [
      { images: new Array(3).fill(image), taskType: "I2V" },
      /Cannot use 3 images: this model takes 2 at a time/,
    ],
    [{ images: [image], width: 8 }, /an image of 4x2: the result has 8x2; scale it first/],
    [{ video: [image], height: 4 }, /an image of 4x2: the result has 4x4/],
    [{ video: [image], strength: 0 }, /strength 0: it must be above 0/],
    [{ video: [image], strength: 1.5 }, /strength 1.5: it must be above 0 and at most 1/],
  ];
  for (const [change, message] of cases) {
    const info = { ...IMAGES, maxImages: 2, maxEditImages: 1 };
    const refused = () => toPipelineRequest({ ...REQUEST, ...change }, info);
    assert.throws(refused, { name: "RangeError", message });
  }
});
