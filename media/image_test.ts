import { strict as assert } from "node:assert";
import { noise } from "../tests/support/pixels.ts";
import { channelsOf, checkImage, crop, toRgb, toRgba } from "./image.ts";

Deno.test("checkImage() refuses sizes and data that do not agree", () => {
  const data = new Uint8Array(12);
  checkImage({ width: 2, height: 2, data });
  checkImage({ width: 3, height: 1, channels: 4, data });
  const bad = [
    { width: 2, height: 3, data },
    { width: 2, height: 2, channels: 4 as const, data },
    { width: 0, height: 2, data: new Uint8Array(0) },
    { width: -2, height: -2, data },
    { width: 1.5, height: 2, data },
    { width: NaN, height: 2, data },
  ];
  for (const image of bad) assert.throws(() => checkImage(image), RangeError);
});

Deno.test("toRgba() and toRgb() keep the colours", () => {
  const image = noise(5, 3);
  const rgba = toRgba(image);
  assert.equal(channelsOf(rgba), 4);
  assert.ok(rgba.data.every((value, i) => i % 4 !== 3 || value === 255));
  assert.deepEqual(toRgb(rgba), image);
});

Deno.test("toRgb() lays what is transparent on white, and hides the colours below", () => {
  const data = Uint8Array.of(...[255, 0, 255, 0], ...[0, 100, 200, 128], ...[9, 8, 7, 255]);
  const image = { width: 3, height: 1, channels: 4 as const, data };
  assert.deepEqual([...toRgb(image).data], [255, 255, 255, 127, 177, 227, 9, 8, 7]);
});

Deno.test("crop() takes the rectangle and refuses one outside", () => {
  const image = noise(7, 5, 4);
  const part = crop(image, 2, 1, 3, 4);
  assert.equal(part.channels, 4);
  for (let y = 0; y < 4; y++) {
    const from = ((y + 1) * 7 + 2) * 4;
    assert.deepEqual(
      part.data.slice(y * 12, y * 12 + 12),
      image.data.slice(from, from + 12),
    );
  }
  for (const [x, y, w, h] of [[5, 0, 3, 1], [-1, 0, 2, 2], [0, 4, 1, 2], [0, 0, 0, 1]] as const) {
    assert.throws(() => crop(image, x, y, w, h), /does not lie inside the 7x5 image$/);
  }
});
