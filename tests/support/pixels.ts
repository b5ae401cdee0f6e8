/** Images for tests, and how two images differ. */

import assert from "node:assert/strict";
import { channelsOf, type PixelImage, type RgbaImage, type RgbImage } from "../../media/image.ts";

/** Any sizes that break careless code: a pixel, odd, a power of two, odd and large. */
export const SIZES: readonly (readonly [number, number])[] = [[1, 1], [3, 5], [64, 64], [333, 257]];

/**
 * Random bytes: the top bytes of a linear congruential generator, which `tools/reference/resize.py`
 * has too.
 *
 * @param width in pixels
 * @param height in pixels
 * @param channels 3 or 4
 */
export function noise<Channels extends 3 | 4 = 3>(
  width: number,
  height: number,
  channels?: Channels,
): Channels extends 4 ? RgbaImage : RgbImage;
export function noise(width: number, height: number, channels: 3 | 4 = 3): PixelImage {
  let state = (width * 65536 + height * 256 + channels) >>> 0;
  const data = new Uint8Array(width * height * channels);
  for (let i = 0; i < data.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    data[i] = state >>> 24;
  }
  return channels === 4 ? { width, height, channels, data } : { width, height, data };
}

/**
 * Slopes, which lossy formats keep well: red to the right, green down, blue across.
 *
 * @param width in pixels
 * @param height in pixels
 */
export function slopes(width: number, height: number): RgbImage {
  const data = new Uint8Array(width * height * 3);
  // At most 4 from pixel to pixel: small images are not steeper than large ones.
  const right = Math.min(4, 255 / width);
  const down = Math.min(4, 255 / height);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      data[i++] = x * right;
      data[i++] = y * down;
      data[i++] = (x * right + y * down) / 2;
    }
  }
  return { width, height, data };
}

/**
 * The largest difference between two images.
 *
 * @returns the difference, and where it is, in words
 * @throws {Error} when sizes or channels differ
 */
export function worstSample(
  actual: PixelImage,
  expected: PixelImage,
): { difference: number; text: string } {
  const channels = channelsOf(expected);
  const shape = (image: PixelImage) => `${image.width}x${image.height}x${channelsOf(image)}`;
  if (shape(actual) !== shape(expected) || actual.data.length !== expected.data.length) {
    throw new Error(`Cannot compare images: one is ${shape(actual)}, the other ${shape(expected)}`);
  }
  let worst = 0;
  for (let i = 0; i < expected.data.length; i++) {
    if (differenceAt(actual, expected, i) > differenceAt(actual, expected, worst)) worst = i;
  }
  const pixel = Math.floor(worst / channels);
  return {
    difference: differenceAt(actual, expected, worst),
    text: `channel ${worst % channels} at (${pixel % expected.width}, ${
      Math.floor(pixel / expected.width)
    }) is ${actual.data[worst]}, expected ${expected.data[worst]}`,
  };
}

/**
 * Mean of the absolute differences between two images of one size.
 *
 * @returns 0 to 255
 */
export function meanDifference(actual: PixelImage, expected: PixelImage): number {
  let sum = 0;
  for (let i = 0; i < expected.data.length; i++) sum += differenceAt(actual, expected, i);
  return sum / expected.data.length;
}

/** Peak signal-to-noise ratio of images in [0, 1], in dB. */
export function psnr(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  assert.equal(actual.length, expected.length);
  let squares = 0;
  for (let i = 0; i < expected.length; i++) squares += (actual[i]! - expected[i]!) ** 2;
  return -10 * Math.log10(squares / expected.length);
}

function differenceAt(a: PixelImage, b: PixelImage, index: number): number {
  return Math.abs(a.data[index]! - b.data[index]!);
}
