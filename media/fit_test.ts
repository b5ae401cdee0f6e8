import { strict as assert } from "node:assert";
import { cover, fit, sizeInside } from "./fit.ts";
import type { RgbImage } from "./image.ts";

/** A row of four grey pixels. */
const ROW = {
  width: 4,
  height: 1,
  data: Uint8Array.from([0, 80, 160, 240].flatMap((value) => [value, value, value])),
};

/** The first channel, row by row. */
function greys({ data }: { readonly data: Uint8Array }): number[] {
  return [...data.filter((_, i) => i % 3 === 0)];
}

Deno.test("fit() with `contain` shows all of an image in the middle of black", () => {
  const image = fit(ROW, { contain: { width: 4, height: 3 } });
  assert.deepEqual(greys(image), [0, 0, 0, 0, 0, 80, 160, 240, 0, 0, 0, 0]);
});

Deno.test("fit() mirrors edges as often as a frame needs, with the last pixels once or twice", () => {
  const how = { scaled: ROW, mirrored: { width: 11, height: 1 } };
  assert.deepEqual(
    greys(fit(ROW, { ...how, isEdgeRepeated: false })),
    [...[240, 160, 80], ...[0, 80, 160, 240], ...[160, 80, 0, 80]],
  );
  assert.deepEqual(
    greys(fit(ROW, { ...how, isEdgeRepeated: true })),
    [...[160, 80, 0], ...[0, 80, 160, 240], ...[240, 160, 80, 0]],
  );
  const tall = { scaled: ROW, mirrored: { width: 4, height: 3 }, isEdgeRepeated: false };
  assert.deepEqual(greys(fit(ROW, tall)), [...greys(ROW), ...greys(ROW), ...greys(ROW)]);
});

Deno.test("fit() stretches where it scales to a frame and cuts nothing", () => {
  const frame = { width: 4, height: 2 };
  assert.deepEqual(greys(fit(ROW, { scaled: frame, cut: frame })), [
    ...[0, 80, 160, 240],
    ...[0, 80, 160, 240],
  ]);
});

Deno.test("fit() scales with the filter that is named", () => {
  const frame = { width: 2, height: 1 };
  const nearest = fit(ROW, { scaled: frame, cut: frame, filter: "nearest" });
  assert.deepEqual(greys(nearest), [80, 240]);
});

Deno.test("sizeInside() keeps the shape, and no side below 1", () => {
  assert.deepEqual(sizeInside({ width: 100, height: 50 }, { width: 64, height: 48 }), {
    width: 64,
    height: 32,
  });
  assert.deepEqual(sizeInside({ width: 1000, height: 1 }, { width: 64, height: 48 }), {
    width: 64,
    height: 1,
  });
});

Deno.test("fit() gives transparent images a white ground and black bars", () => {
  const image = { width: 2, height: 2, channels: 4 as const, data: new Uint8Array(16).fill(9) };
  for (let i = 3; i < 16; i += 4) image.data[i] = 0;
  const { data } = fit(image, { contain: { width: 4, height: 2 } });
  assert.deepEqual([...data.subarray(0, 12)], [0, 0, 0, 255, 255, 255, 255, 255, 255, 0, 0, 0]);
});

/** Red is the column, green the row. */
function grid(width: number, height: number): RgbImage {
  const data = new Uint8Array(width * height * 3);
  for (let i = 0; i < width * height; i++) {
    data.set([i % width, Math.floor(i / width), 0], i * 3);
  }
  return { width, height, data };
}

Deno.test("cover() leaves an image of the right size as it is", () => {
  assert.deepEqual(cover(grid(5, 3), 5, 3).data, grid(5, 3).data);
});

Deno.test("cover() cuts the longer side evenly", () => {
  const wide = cover(grid(9, 3), 3, 3);
  assert.deepEqual([...wide.data.subarray(0, 9)], [3, 0, 0, 4, 0, 0, 5, 0, 0]);
  const tall = cover(grid(3, 9), 3, 3);
  assert.deepEqual([...tall.data.subarray(0, 3)], [0, 3, 0]);
});

Deno.test("cover() makes any shape of any other", () => {
  const shapes: [from: [number, number], to: [number, number]][] = [
    [[1, 500], [64, 32]],
    [[500, 1], [32, 64]],
    [[7, 5], [1, 1]],
  ];
  for (const [from, to] of shapes) {
    const { width, height, data } = cover(grid(...from), ...to);
    assert.deepEqual([width, height, data.length], [...to, to[0] * to[1] * 3]);
  }
});
