import { strict as assert } from "node:assert";
import { cover } from "./fit.ts";
import type { RgbImage } from "./image.ts";

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
