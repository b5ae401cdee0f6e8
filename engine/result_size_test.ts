import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { PipelineRequest } from "../models/mod.ts";
import { resize } from "../media/resize.ts";
import { drawnSize, shrinkRequest } from "./result_size.ts";
import { openEngine } from "./mod.ts";
import type { GenerateRequest, Image } from "./types.ts";

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

const REQUEST: GenerateRequest = {
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
      const plain = await engine.generate({ ...REQUEST, images });
      assert.equal(plain.drawnAt, undefined);
      const previews: Image[] = [];
      // Shrinking what was enlarged from the same image gives that again, near enough.
      const { frames, width, height, drawnAt } = await engine.generate(
        { ...REQUEST, width: 384, height: 256, images: [resize(images[0]!, 384, 256)] },
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
      const text = { ...REQUEST, numFrames: 1 };
      const own = await engine.generate(text);
      const again = await engine.generate({ ...text, width: 384, height: 256 });
      const enlarged = resize({ width: 96, height: 64, data: own.frames[0]! }, 384, 256).data;
      assert.deepEqual(again.frames[0], enlarged);
    } finally {
      await engine.close();
    }
  },
});
