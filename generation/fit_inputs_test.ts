import assert from "node:assert/strict";
import { fitMasked, sizeFromImage, sizeFromMasked } from "./fit_inputs.ts";

const defaults = {
  ...{ width: 1024, height: 1024, numInferenceSteps: 8, guidanceScale: 1 },
  ...{ numFrames: 1, fps: 1, negativePrompt: "" },
};
const rules = { defaults, sizeMultiple: 16, maxPixels: 4096 * 4096 };

Deno.test("sizeFromMasked() keeps an image's own size, cut to the multiple, from a quarter of the usual pixels to twice", () => {
  const sizes: [number, number, number, number][] = [
    [1152, 896, 1152, 896],
    [1000, 750, 992, 736],
    [512, 512, 512, 512],
    [1448, 1447, 1440, 1440],
    // Too few or too many pixels: as without a mask.
    [511, 512, 1024, 1024],
    [2000, 2000, 1024, 1024],
    [8000, 1000, 2896, 368],
  ];
  for (const [width, height, ...size] of sizes) {
    const kept = sizeFromMasked({ width, height }, rules);
    assert.deepEqual([kept.width, kept.height], size, `${width}x${height}`);
  }
  assert.deepEqual(sizeFromImage({ width: 1152, height: 896 }, rules), {
    width: 1168,
    height: 896,
  });
  const small = { ...rules, maxPixels: 1000 * 1000 };
  assert.ok(sizeFromMasked({ width: 1024, height: 1024 }, small).width < 1024);
});

Deno.test("sizeFromImage() rounds sides to a multiple of their own where a model says one, as Qwen-Image-Edit does", () => {
  const limits = { multiple: 1, maxPixels: 2048 ** 2, minSide: 16, maxAspect: 8 };
  const edits = { ...rules, imageLimits: { ...limits, shapeMultiple: 32 } };
  const image = { width: 1600, height: 900 };
  assert.deepEqual(sizeFromImage(image, edits), { width: 1376, height: 768 });
  const layers = { initial: 4, most: 16, shapeMultiple: 32 };
  const square = { ...defaults, width: 640, height: 640 };
  assert.deepEqual(sizeFromImage(image, { ...rules, defaults: square, layers }), {
    width: 864,
    height: 480,
  });
});

Deno.test("sizeFromMasked() refuses images that the model refuses without a mask", () => {
  const imageLimits = { multiple: 16, maxPixels: 1024 ** 2, minSide: 64, maxAspect: 4 };
  assert.throws(
    () => sizeFromMasked({ width: 8000, height: 100 }, { ...rules, imageLimits }),
    { name: "RangeError" },
  );
});

Deno.test("fitMasked() cuts where less than a multiple is too much, and scales otherwise or where a way is named", () => {
  const image = { width: 1000, height: 750 };
  const cut = { width: 992, height: 736 };
  assert.deepEqual(fitMasked(image, cut, rules), { scaled: image, cut });
  assert.deepEqual(fitMasked(image, cut, rules, "stretch"), { scaled: cut, cut });
  assert.deepEqual(fitMasked(image, { width: 992, height: 720 }, rules), {
    cover: { width: 992, height: 720 },
  });
  assert.deepEqual(fitMasked(image, { width: 1008, height: 752 }, rules), {
    cover: { width: 1008, height: 752 },
  });
});
