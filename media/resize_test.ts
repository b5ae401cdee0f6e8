import { strict as assert } from "node:assert";
import { createHash } from "node:crypto";
import { inflateSync } from "node:zlib";
import goldens from "../tests/goldens/media/resize.json" with { type: "json" };
import { noise, worstSample } from "../tests/support/pixels.ts";
import type { PixelImage } from "./image.ts";
import { resize, type ResizeFilter } from "./resize.ts";

const FILTERS: readonly ResizeFilter[] = ["nearest", "bilinear", "bicubic", "lanczos"];

for (const filter of FILTERS) {
  Deno.test(`resize() gives Pillow's pixels, ${filter}`, () => {
    const cases = goldens.cases.filter((golden) => golden.filter === filter);
    assert.ok(cases.length >= 28, `${cases.length} cases`);
    for (const golden of cases) {
      const [fromWidth, fromHeight] = golden.from as [number, number];
      const [width, height] = golden.to as [number, number];
      const channels = golden.channels as 3 | 4;
      const result = resize(noise(fromWidth, fromHeight, channels), width, height, filter);
      const name = `${golden.from} to ${golden.to}, ${channels} channels`;
      if (golden.data !== undefined) {
        const data = new Uint8Array(inflateSync(Uint8Array.fromBase64(golden.data)));
        const expected = { width, height, channels, data } as PixelImage;
        const { difference, text } = worstSample(result, expected);
        assert.equal(difference, 0, `${name}: ${text}`);
      } else {
        const hash = createHash("sha256").update(result.data).digest("hex");
        assert.equal(hash, golden.sha256, name);
      }
    }
  });
}

Deno.test("resize() keeps a plain colour plain", () => {
  const image = { width: 9, height: 7, data: new Uint8Array(9 * 7 * 3).fill(201) };
  for (const filter of FILTERS) {
    for (const [width, height] of [[1, 1], [4, 30], [100, 3]] as const) {
      const { data } = resize(image, width, height, filter);
      assert.deepEqual([...new Set(data)], [201], `${filter} ${width}x${height}`);
    }
  }
});

Deno.test("resize() does not change its input and returns it for its own size", () => {
  const image = noise(8, 6, 4);
  const before = image.data.slice();
  resize(image, 3, 9);
  assert.deepEqual(image.data, before);
  assert.equal(resize(image, 8, 6), image);
});

Deno.test("resize() refuses sizes that are no sizes", () => {
  for (const size of [0, -1, 1.5, NaN, Infinity]) {
    assert.throws(() => resize(noise(2, 2), size, 4), /must be positive integers$/);
    assert.throws(() => resize(noise(2, 2), 4, size), /must be positive integers$/);
  }
});
