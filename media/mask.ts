/** Masks: which pixels of an image are redrawn, as pictures say it. */

import { type Fit, fit, grownSize } from "./fit.ts";
import type { PixelImage, RgbImage } from "./image.ts";

/** Bytes up to this one count as black, and as many at the other end as white: scaling and JPEG leave traces. */
const NEARLY = 32;

/** Weights of red, green and blue in what is light, of 2^16; those of Pillow's `convert("L")`. */
const LUMA = [19595, 38470, 7471] as const;

/** Whether an image has pixels that nothing is seen of: with an alpha of 0. */
export function hasHoles(image: PixelImage): boolean {
  return image.channels === 4 && someAlpha(image.data, (alpha) => alpha === 0);
}

export interface MaskWay {
  /** Whether what is opaque is painted, in place of what is transparent. */
  readonly isOpaque?: boolean;
  /** Whether the mask says what is kept. */
  readonly isInverted?: boolean;
}

/** A mask of an image: white is redrawn, black is kept, and grey lies between. */
export function maskOf(image: PixelImage, how: Fit, way: MaskWay = {}): RgbImage {
  if (how.outpaint) return outpaintMask(image, how);
  const { width, height, data } = image;
  const isCut = image.channels === 4 && someAlpha(data, (alpha) => alpha < 255);
  const step = image.channels ?? 3;
  const kept = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; to < kept.length; from += step, to += 3) {
    const light = LUMA[0] * data[from]! + LUMA[1] * data[from + 1]! + LUMA[2] * data[from + 2]!;
    const alpha = way.isOpaque ? 255 - data[from + 3]! : data[from + 3]!;
    const value = isCut ? alpha : 255 - ((light + 0x8000) >> 16);
    kept.fill(way.isInverted ? 255 - value : value, to, to + 3);
  }
  // Turned round, so that the black around what is contained becomes white.
  const fitted = fit({ width, height, data: kept }, how);
  return { ...fitted, data: fitted.data.map(painted) };
}

/** White where an image has grown. */
function outpaintMask(image: PixelImage, { outpaint, ...how }: Fit): RgbImage {
  const [left = 0, top = 0] = outpaint!;
  const size = grownSize(image, outpaint);
  const data = new Uint8Array(size.width * size.height * 3);
  for (let y = 0; y < image.height; y++) {
    const from = ((y + top) * size.width + left) * 3;
    data.fill(255, from, from + image.width * 3);
  }
  const fitted = fit({ ...size, data }, how);
  return { ...fitted, data: fitted.data.map(painted) };
}

/** How much of an image a mask paints, 0 to 1. */
export function paintedShare({ data }: RgbImage): number {
  let count = 0;
  for (let i = 0; i < data.length; i += 3) count += Number(data[i]! > 0);
  return count * 3 / data.length;
}

/** How much of each pixel a mask of a byte each paints, 0 to 1; its edge is soft on the inside. */
export function softEdge(mask: Uint8Array, width: number, height: number): Float32Array {
  const reach = Math.max(1, Math.round(Math.min(width, height) / 128));
  const distances = distancesToKept(mask, width, height, reach);
  return distances.map((distance, i) => Math.min(1, distance / reach) * mask[i]! / 255);
}

/**
 * How much of each pixel a blurred mask paints, 0 to 1: all up to its former edge, and less and less beyond, or half of it there.
 * Source: `mask_blur` of AUTOMATIC1111's WebUI, whose kernel is that of OpenCV's `GaussianBlur` with 2.5 deviations to each
 * side, and which doubles what it gives, unless it redraws only the area around a mask.
 */
export function blurredEdge(
  mask: Uint8Array,
  { width, height }: { readonly width: number; readonly height: number },
  deviation: number,
  { isDoubled = true } = {},
): Float32Array {
  const reach = Math.floor(2.5 * deviation + 0.5);
  const weights = Float64Array.from(
    { length: 2 * reach + 1 },
    (_, i) => Math.exp(-((i - reach) ** 2) / (2 * deviation ** 2)),
  );
  const sum = weights.reduce((sum, weight) => sum + weight, 0);
  const across = blurred(mask, weights, { count: width, step: 1 });
  const both = blurred(across, weights, { count: height, step: width });
  const gain = (isDoubled ? 2 : 1) / (255 * sum * sum);
  return both.map((value) => Math.min(1, value * gain));
}

/** Sums along rows or columns of `count` values that lie `step` apart; the image is mirrored at its ends. */
function blurred(
  values: Uint8Array | Float32Array,
  weights: Float64Array,
  { count, step }: { readonly count: number; readonly step: number },
): Float32Array {
  const reach = weights.length >> 1;
  const period = Math.max(1, 2 * count - 2);
  return Float32Array.from(values, (_, i) => {
    const at = Math.floor(i / step) % count;
    let sum = 0;
    for (const [k, weight] of weights.entries()) {
      const place = ((at + k - reach) % period + period) % period;
      const mirrored = place < count ? place : period - place;
      sum += weight * values[i + (mirrored - at) * step]!;
    }
    return sum;
  });
}

/** Pixels to the nearest one that is kept, at most `most`, in steps to the side, down and, of √2, across. */
function distancesToKept(
  mask: Uint8Array,
  width: number,
  height: number,
  most: number,
): Float32Array {
  const distances = Float32Array.from(mask, (byte) => byte === 0 ? 0 : most);
  const pass = (first: number, end: number, step: 1 | -1) => {
    for (let i = first; i !== end; i += step) {
      if (distances[i] === 0) continue;
      const x = i % width;
      const [isFirst, isLast] = step === 1
        ? [x === 0, x === width - 1]
        : [x === width - 1, x === 0];
      const above = i - step * width;
      const hasAbove = above >= 0 && above < distances.length;
      let least = distances[i]!;
      if (!isFirst) least = Math.min(least, distances[i - step]! + 1);
      if (hasAbove) least = Math.min(least, distances[above]! + 1);
      if (hasAbove && !isFirst) least = Math.min(least, distances[above - step]! + Math.SQRT2);
      if (hasAbove && !isLast) least = Math.min(least, distances[above + step]! + Math.SQRT2);
      distances[i] = least;
    }
  };
  pass(0, width * height, 1);
  pass(width * height - 1, -1, -1);
  return distances;
}

function painted(kept: number): number {
  return Math.min(255, Math.max(0, Math.round((255 - kept - NEARLY) * 255 / (255 - 2 * NEARLY))));
}

function someAlpha(data: Uint8Array, test: (alpha: number) => boolean): boolean {
  for (let i = 3; i < data.length; i += 4) if (test(data[i]!)) return true;
  return false;
}
