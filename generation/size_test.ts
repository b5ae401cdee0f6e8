import { strict as assert } from "node:assert";
import {
  checkSize,
  fitMasked,
  keepOwnSize,
  keepWhole,
  nearestSize,
  parseSize,
  sizeFromImage,
  sizeFromMasked,
  sizeWithin,
} from "./size.ts";
import fc from "fast-check";

const LIMITS = { sizeMultiple: 16, maxPixels: 512 * 512 };

Deno.test("parseSize() reads both sides, whatever the case and the spaces", () => {
  for (const text of ["640x480", "640X480", " 640 x 480 ", "640×480"]) {
    assert.deepEqual(parseSize(text), { width: 640, height: 480 });
  }
});

Deno.test("parseSize() refuses zero, signs, fractions and anything else", () => {
  for (const text of ["", "x", "64", "0x64", "64x0", "-64x64", "6.4x64", "64x64x64", "axb"]) {
    assert.throws(() => parseSize(text), {
      name: "RangeError",
      message: "size must be formatted as positive WIDTHxHEIGHT",
    });
  }
});

Deno.test("checkSize() accepts what fits and names what would", () => {
  checkSize({ width: 512, height: 512 }, LIMITS);
  checkSize({ width: 16, height: 16 }, LIMITS);
  assert.throws(
    () => checkSize({ width: 100, height: 65 }, LIMITS),
    /multiples of 16; the nearest size is 96x64$/,
  );
  assert.throws(
    () => checkSize({ width: 1024, height: 512 }, LIMITS),
    /at most 262144 pixels; the nearest size is 704x368$/,
  );
  assert.throws(() => checkSize({ width: 16, height: 0 }, LIMITS), /^RangeError: height must be/);
});

Deno.test("nearestSize() is always a size that checkSize() accepts", () => {
  const side = fc.integer({ min: 1, max: 1_000_000 });
  fc.assert(fc.property(side, side, (width, height) => {
    checkSize(nearestSize({ width, height }, LIMITS), LIMITS);
  }));
});

Deno.test("sizeWithin() keeps the shape and stays below the budget", () => {
  const cases = [
    [[1920, 1080], [832, 480], [832, 464]],
    [[1080, 1920], [832, 480], [464, 832]],
    [[500, 500], [832, 480], [624, 624]],
    [[4000, 10], [64, 64], [256, 16]],
    [[10, 10], [8, 8], [16, 16]],
  ] as const;
  for (const [shape, budget, expected] of cases) {
    const size = (sides: readonly [number, number]) => ({ width: sides[0], height: sides[1] });
    assert.deepEqual(sizeWithin(size(shape), size(budget), 16), size(expected), `${shape}`);
  }
});

Deno.test("keepOwnSize() scales to the nearest shape where a model takes a few sizes only", () => {
  const sizes = [[672, 1568], [1024, 1024], [1104, 944], [1568, 672]] as const;
  const limits = { multiple: 16, maxPixels: 2 ** 21, minSide: 16, maxAspect: 8, sizes };
  for (
    const [from, to] of [
      [[64, 64], [1024, 1024]],
      [[4000, 3500], [1104, 944]],
      [[300, 2000], [672, 1568]],
      [[1000, 201], [1568, 672]],
      // 96x80 in whole tokens.
      [[103, 95], [1104, 944]],
    ] as const
  ) {
    const size = { width: to[0], height: to[1] };
    const own = keepOwnSize({ width: from[0], height: from[1] }, limits);
    assert.deepEqual(own, { scaled: size, cut: size });
  }
});

Deno.test("keepOwnSize() cuts sides to multiples, scales down what has too many pixels, refuses extreme shapes", () => {
  const limits = { multiple: 16, maxPixels: 1024 * 1024, minSide: 64, maxAspect: 8 };
  const sizes: [from: [number, number], scaled: [number, number], cut: [number, number]][] = [
    [[64, 64], [64, 64], [64, 64]],
    [[100, 79], [100, 79], [96, 64]],
    [[1024, 1024], [1024, 1024], [1024, 1024]],
    [[2000, 1500], [1182, 886], [1168, 880]],
    [[4096, 512], [2896, 362], [2896, 352]],
  ];
  for (const [[width, height], scaled, cut] of sizes) {
    const own = keepOwnSize({ width, height }, limits);
    assert.deepEqual([own.scaled.width, own.scaled.height], scaled);
    assert.deepEqual([own.cut.width, own.cut.height], cut);
  }
  assert.throws(() => keepOwnSize({ width: 63, height: 100 }, limits), {
    name: "RangeError",
    message: /63x100: this model takes sides of at least 64 pixels/,
  });
  assert.throws(() => keepOwnSize({ width: 100, height: 801 }, limits), {
    name: "RangeError",
    message: /100x801: for this model one side may be at most 8 times/,
  });
});

const WHOLE = { multiple: 16, maxPixels: 1024 ** 2, minSide: 64, maxAspect: 8 };
const ALONE = {
  imageLimits: { ...WHOLE, alone: { maxPixels: 2048 ** 2, minSide: 64, maxSide: 4096 } },
  maxPixels: 4096 ** 2,
};

Deno.test("keepWhole() rounds sides up, and scales down as the reference does what has too many pixels then", () => {
  const sizes: [from: [number, number], scaled: [number, number], mirrored: [number, number]][] = [
    [[70, 50], [70, 50], [80, 64]],
    [[64, 96], [64, 96], [64, 96]],
    [[2048, 2048], [2048, 2048], [2048, 2048]],
    // Of its own size it would have 2064x2048 pixels.
    [[2049, 2047], [2039, 2037], [2048, 2048]],
    [[8191, 100], [4096, 50], [4096, 64]],
    [[4097, 8194], [1434, 2867], [1440, 2880]],
    [[5000, 1], [4096, 1], [4096, 64]],
  ];
  for (const [[width, height], scaled, mirrored] of sizes) {
    const whole = keepWhole({ width, height }, ALONE)!;
    assert.deepEqual([whole.scaled.width, whole.scaled.height], scaled, `${width}x${height}`);
    assert.deepEqual([whole.mirrored.width, whole.mirrored.height], mirrored);
  }
  const isEdgeRepeated = (side: number) =>
    keepWhole({ width: 100, height: side }, ALONE)!.isEdgeRepeated;
  assert.deepEqual([16, 17].map(isEdgeRepeated), [true, false]);
  assert.equal(keepWhole({ width: 70, height: 50 }, { ...ALONE, imageLimits: WHOLE }), undefined);
  // A machine that makes fewer pixels, however few, still has a size for it.
  for (const [maxPixels, side] of [[1024 ** 2, 1024], [1, 64]] as const) {
    const { mirrored } = keepWhole({ width: 3000, height: 3000 }, { ...ALONE, maxPixels })!;
    assert.deepEqual(mirrored, { width: side, height: side });
  }
});

Deno.test("keepWhole() never enlarges, stays within its limits, and mirrors less than a multiple but at the shortest side", () => {
  const side = fc.integer({ min: 1, max: 20_000 });
  fc.assert(fc.property(side, side, (width, height) => {
    const { scaled, mirrored } = keepWhole({ width, height }, ALONE)!;
    assert.ok(mirrored.width * mirrored.height <= 2048 ** 2);
    for (
      const [own, kept, full] of [
        [width, scaled.width, mirrored.width],
        [height, scaled.height, mirrored.height],
      ] as const
    ) {
      assert.ok(kept >= 1 && kept <= own && kept <= full && full <= 4096 && full % 16 === 0);
      assert.ok(full === 64 || full - kept < 16);
    }
    assert.deepEqual(
      sizeFromImage({ width, height }, { ...rules, ...ALONE }, true),
      mirrored,
    );
  }));
});

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
