import { fileURLToPath } from "node:url";
import type { PipelineRequest } from "../models/mod.ts";
import { resize } from "../media/resize.ts";
import {
  drawnSize,
  middleOf,
  resultFrames,
  resultRate,
  shrinkRequest,
  toPipelineRequest,
} from "./result_size.ts";
import { passesOf } from "./passes.ts";
import { openEngine } from "./mod.ts";
import type { GenerateRequest, Image, ModelInfo } from "./types.ts";
import { FAKE_INFO } from "../tests/fakes/model_info.ts";
import assert from "node:assert/strict";

const RULES = { nativeSides: { least: 64, most: 96 }, sizeMultiple: 16 };

const drawn = (width: number, height: number) => {
  const size = drawnSize({ width, height }, RULES);
  return size && `${size.width}x${size.height}`;
};

Deno.test("drawnSize() leaves sizes at or near the native ones", () => {
  for (const [width, height] of [[96, 96], [64, 64], [128, 128], [144, 128], [16, 16], [256, 64]]) {
    assert.equal(drawn(width!, height!), undefined);
  }
});

Deno.test("drawnSize() gives the largest native size in the nearest shape", () => {
  const sizes = { "1024x1024": "96x96", "256x256": "96x96", "1536x1024": "96x64" };
  const wide = { "1792x1024": "96x64", "1280x720": "96x64", "1024x1792": "64x96" };
  const others = { "1024x896": "96x80", "4096x16": "96x64", "512x768": "64x96" };
  for (const [asked, size] of Object.entries({ ...sizes, ...wide, ...others })) {
    const [width, height] = asked.split("x").map(Number);
    assert.equal(drawn(width!, height!), size, asked);
  }
});

Deno.test("drawnSize() gives nothing for models without native sides", () => {
  assert.equal(drawnSize({ width: 4096, height: 4096 }, { sizeMultiple: 16 }), undefined);
});

Deno.test("drawnSize() gives multiples that the model makes, whatever its config says", () => {
  for (const nativeSides of [{ least: 50, most: 100 }, { least: 90, most: 95 }]) {
    const rules = { nativeSides, sizeMultiple: 16 };
    const { width, height } = drawnSize({ width: 512, height: 512 }, rules)!;
    assert.deepEqual([width, height], nativeSides.most === 100 ? [96, 96] : [80, 80]);
  }
  const tiny = { nativeSides: { least: 1, most: 8 }, sizeMultiple: 16 };
  assert.deepEqual(drawnSize({ width: 512, height: 512 }, tiny), { width: 16, height: 16 });
});

const IMAGE: Image = {
  ...{ width: 256, height: 256 },
  data: Uint8Array.from({ length: 256 * 256 * 3 }, (_, i) => i % 251),
};

Deno.test("shrinkRequest() shrinks what has the size of the result", () => {
  const { width, height, data } = IMAGE;
  const request = { width, height, images: [IMAGE], video: [data] } as unknown as PipelineRequest;
  const size = { width: 96, height: 96 };
  const { images, video, ...rest } = shrinkRequest(request, size, {});
  const expected = resize(IMAGE, 96, 96).data;
  assert.deepEqual([rest.width, rest.height], [96, 96]);
  assert.deepEqual(images, [{ ...size, data: expected }]);
  assert.deepEqual(video, [expected]);
  const imageLimits = { multiple: 16, maxPixels: 1e6, minSide: 64, maxAspect: 8 };
  assert.deepEqual(shrinkRequest(request, size, { imageLimits }).images, [IMAGE]);
});

Deno.test("middleOf() cuts out what lay within mirrored edges, also of what is enlarged since", () => {
  const [drawn, middle] = [{ width: 6, height: 4 }, { width: 3, height: 4 }];
  for (const scale of [1, 2]) {
    const size = { width: 6 * scale, height: 4 * scale };
    const columns = Uint8Array.from(
      { length: size.width * size.height * 3 },
      (_, i) => Math.floor(i / 3) % size.width,
    );
    const cut = middleOf(columns, drawn, middle, scale);
    assert.equal(cut.length, 3 * scale * 4 * scale * 3);
    // One column is left out before it, and two behind.
    assert.deepEqual([cut[0], cut.at(-1)], [scale, 4 * scale - 1]);
  }
});

Deno.test("passesOf() takes the middle of a size that is drawn for no mask", () => {
  const request = {
    ...BUNDLED_REQUEST,
    width: 70,
    height: 50,
    cropSize: { width: 80, height: 64 },
  };
  const [pass, ...others] = passesOf(request, FAKE_INFO, 0);
  assert.deepEqual([pass!.result, pass!.drawnAt, pass!.size, others], [
    ...["middle", request.cropSize, { width: 70, height: 50 }, []],
  ]);
  assert.equal(passesOf({ ...request, paddingMaskCrop: 8 }, FAKE_INFO, 0)[0]!.result, "frames");
});

const BUNDLED_REQUEST: GenerateRequest = {
  ...{ prompt: "a red circle", width: 96, height: 64, numFrames: 5 },
  ...{ seed: 7, numInferenceSteps: 2, guidanceScale: 1 },
};

Deno.test({
  name:
    "Engine.generate() enlarges frames and previews of what it draws smaller; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async () => {
    const modelPath = fileURLToPath(new URL("../models/bundled", import.meta.url));
    const engine = await openEngine({ modelPath });
    try {
      const images = [resize(IMAGE, 96, 64)];
      const plain = await engine.generate({ ...BUNDLED_REQUEST, images });
      assert.equal(plain.drawnAt, undefined);
      const previews: Image[] = [];
      // Shrinking what was enlarged from the same image gives that again, near enough.
      const { frames, width, height, drawnAt } = await engine.generate(
        { ...BUNDLED_REQUEST, width: 384, height: 256, images: [resize(images[0]!, 384, 256)] },
        { previews: 1, onPreview: (preview) => previews.push(preview) },
      );
      assert.deepEqual([width, height, drawnAt], [384, 256, { width: 96, height: 64 }]);
      assert.deepEqual(frames.map(({ length }) => length), new Array(5).fill(384 * 256 * 3));
      assert.deepEqual(
        [previews[0]!.width, previews[0]!.data.length],
        [384, 384 * 256 * 3],
      );
      const small = resize({ width, height, data: frames[0]! }, 96, 64).data;
      const apart = small.reduce(
        (sum, value, i) => sum + Math.abs(value - plain.frames[0]![i]!),
        0,
      );
      assert.ok(apart / small.length < 8, `${apart / small.length} levels apart`);
      const text = { ...BUNDLED_REQUEST, numFrames: 1 };
      const own = await engine.generate(text);
      const again = await engine.generate({ ...text, width: 384, height: 256 });
      const enlarged = resize({ width: 96, height: 64, data: own.frames[0]! }, 384, 256).data;
      assert.deepEqual(again.frames[0], enlarged);
    } finally {
      await engine.close();
    }
  },
});

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

Deno.test("resultFrames() and resultRate() keep the first and the last frame, and the speed", () => {
  const cases: [request: Parameters<typeof resultFrames>[0], frames: number, rate: number][] = [
    [{ numFrames: 9 }, 9, 8],
    [{ numFrames: 9, frameInterpolationExp: 2 }, 9, 8],
    [{ numFrames: 9, enableFrameInterpolation: true }, 17, 16],
    [{ numFrames: 9, enableFrameInterpolation: true, frameInterpolationExp: 3 }, 65, 64],
    [{ numFrames: 1, enableFrameInterpolation: true }, 1, 8],
  ];
  for (const [request, frames, rate] of cases) {
    assert.deepEqual([resultFrames(request), resultRate(8, request)], [frames, rate]);
    // From the first frame to the last it takes as long as without frames between.
    assert.equal((frames - 1) / rate, (request.numFrames - 1) / 8);
  }
});
