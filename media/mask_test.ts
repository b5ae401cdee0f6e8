import assert from "node:assert/strict";
import type { RgbaImage, RgbImage } from "./image.ts";
import { blurredEdge, hasHoles, maskOf, paintedShare, softEdge } from "./mask.ts";

/** An image whose pixels are grey. */
function grey(width: number, levels: readonly number[]): RgbImage {
  const data = Uint8Array.from(levels.flatMap((level) => [level, level, level]));
  return { width, height: levels.length / width, data };
}

/** A picture of any colours with these alphas. */
function withAlpha(width: number, alphas: readonly number[]): RgbaImage {
  const data = Uint8Array.from(alphas.flatMap((alpha, i) => [40 * i, 255, 9, alpha]));
  return { width, height: alphas.length / width, channels: 4, data };
}

const red = ({ data }: RgbImage) => [...data].filter((_, i) => i % 3 === 0);
const as = (width: number, height: number) => ({ cover: { width, height } });

Deno.test("maskOf() paints what is white, or transparent where something is", () => {
  assert.deepEqual(red(maskOf(grey(2, [0, 255, 128, 255]), as(2, 2))), [0, 255, 128, 255]);
  assert.deepEqual(red(maskOf(withAlpha(2, [0, 255, 127, 255]), as(2, 2))), [255, 0, 128, 0]);
  const opaque = {
    ...withAlpha(2, [255, 255]),
    data: Uint8Array.of(0, 0, 0, 255, 255, 255, 255, 255),
  };
  assert.deepEqual(red(maskOf(opaque, as(2, 1))), [0, 255]);
});

Deno.test("maskOf() takes what is nearly black and nearly white for it, as JPEG leaves them", () => {
  assert.deepEqual(red(maskOf(grey(4, [12, 32, 223, 240]), as(4, 1))), [0, 0, 255, 255]);
});

Deno.test("maskOf() paints what is around an image that is contained, and leaves no trace of scaling", () => {
  const around = maskOf(grey(2, [0, 0, 0, 0]), { contain: { width: 4, height: 2 } });
  assert.deepEqual(red(around), [255, 0, 0, 255, 255, 0, 0, 255]);
  const large = red(
    maskOf(grey(8, new Array(64).fill(0).map((_, i) => i % 8 < 4 ? 0 : 255)), as(64, 64)),
  );
  assert.equal(Math.max(...large.filter((_, i) => i % 64 < 24)), 0);
  assert.equal(Math.min(...large.filter((_, i) => i % 64 > 40)), 255);
});

Deno.test("paintedShare() counts pixels, and hasHoles() those that nothing is seen of", () => {
  assert.equal(paintedShare(grey(2, [0, 1, 255, 0])), 0.5);
  assert.equal(hasHoles(withAlpha(2, [255, 0])), true);
  assert.equal(hasHoles(withAlpha(2, [255, 1])), false);
  assert.equal(hasHoles(grey(2, [0, 0])), false);
});

Deno.test("blurredEdge() is whole up to the mask's edge, and a doubled Gaussian beyond", () => {
  // By numpy: np.convolve of the row, mirrored at its ends, with the normalised weights of 7 pixels.
  const side = 9;
  const mask = Uint8Array.from({ length: side * side }, (_, i) => i % side < 4 ? 255 : 0);
  const row = [
    ...blurredEdge(mask, { width: side, height: side }, 1.2).subarray(side * 4, side * 5),
  ];
  const expected = [1, 1, 1, 1, 0.66665276, 0.19553425, 0.02929251, 0, 0];
  for (const [i, value] of row.entries()) {
    assert.ok(Math.abs(value - expected[i]!) < 1e-6, `${i}: ${value}, not ${expected[i]}`);
  }
});

Deno.test("softEdge() is soft inside alone, and has no edge where the image ends", () => {
  const side = 512;
  const mask = new Uint8Array(side * side).map((_, i) => i % side < 200 ? 255 : 0);
  const row = [...softEdge(mask, side, side).subarray(side * 7, side * 8)];
  assert.deepEqual(row.slice(195, 202), [1, 1, 0.75, 0.5, 0.25, 0, 0]);
  assert.equal(Math.min(...row.slice(0, 197)), 1);
  assert.deepEqual([...softEdge(Uint8Array.of(0, 51, 255), 3, 1)], [0, Math.fround(0.2), 1]);
});
