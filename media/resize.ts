/**
 * Pillow's resampling of 8-bit images, sample for sample: reference pipelines scale conditioning images with it.
 * Source: Pillow 13.0, `src/libImaging/Resample.c` and `Geometry.c` (behaviour, not code).
 */

import { channelsOf, checkImage, type PixelImage } from "./image.ts";

/** Filters by the names that Pillow has for them. */
export type ResizeFilter = "nearest" | "bilinear" | "bicubic" | "lanczos";

/** A filter kernel: zero outside `-radius` to `radius`. */
interface Kernel {
  readonly radius: number;
  readonly weight: (x: number) => number;
}

/** First input position, count and weights for each output position. */
interface Taps {
  readonly first: Int32Array;
  readonly count: Int32Array;
  /** `width` fixed-point weights per output position. */
  readonly weights: Int32Array;
  readonly width: number;
}

/** Fraction bits of a weight: 32, less 8 for the sample and 2 for overshoot. */
const PRECISION_BITS = 22;

const KERNELS: Readonly<Record<Exclude<ResizeFilter, "nearest">, Kernel>> = {
  bilinear: { radius: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { radius: 2, weight: keysCubic },
  lanczos: { radius: 3, weight: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

/** Scales an image to a size in pixels; colours are weighted by alpha as in Pillow, except with `nearest`. */
export function resize<T extends PixelImage>(
  image: T,
  width: number,
  height: number,
  filter: ResizeFilter = "lanczos",
): T {
  checkImage(image);
  if (!Number.isSafeInteger(width) || !Number.isSafeInteger(height) || width < 1 || height < 1) {
    throw new RangeError(
      `Cannot resize image to ${width}x${height}: both sides must be positive integers`,
    );
  }
  if (width === image.width && height === image.height) return image;
  const channels = channelsOf(image);
  if (filter === "nearest") {
    return { ...image, width, height, data: pickNearest(image, width, height, channels) };
  }
  const kernel = KERNELS[filter];
  const shrink = image.height - height;
  const downFirst = shrink > 0 && shrink > (image.width - width) * 2;
  let data = channels === 4 ? premultiply(image.data) : image.data;
  for (const down of [downFirst, !downFirst]) {
    if (down && height !== image.height) {
      const stride = (downFirst ? image.width : width) * channels;
      data = resampleRows(data, stride, makeTaps(kernel, image.height, height), height);
    } else if (!down && width !== image.width) {
      const rows = downFirst ? height : image.height;
      const taps = makeTaps(kernel, image.width, width);
      data = resampleColumns(data, image.width, rows, channels, taps, width);
    }
  }
  if (channels === 4) unpremultiply(data);
  return { ...image, width, height, data };
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);
}

/** Keys' cubic convolution with a = -0.5. */
function keysCubic(x: number): number {
  const a = -0.5;
  const t = Math.abs(x);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return (((t - 5) * t + 8) * t - 4) * a;
  return 0;
}

function makeTaps(kernel: Kernel, from: number, to: number): Taps {
  const scale = from / to;
  const stretch = Math.max(scale, 1);
  const radius = kernel.radius * stretch;
  const width = Math.ceil(radius) * 2 + 1;
  const first = new Int32Array(to);
  const count = new Int32Array(to);
  const weights = new Int32Array(to * width);
  const exact = new Float64Array(width);
  for (let i = 0; i < to; i++) {
    const center = (i + 0.5) * scale;
    const start = Math.max(0, Math.trunc(center - radius + 0.5));
    const taps = Math.min(from, Math.trunc(center + radius + 0.5)) - start;
    let sum = 0;
    for (let k = 0; k < taps; k++) {
      const weight = kernel.weight((k + start - center + 0.5) * (1 / stretch));
      exact[k] = weight;
      sum += weight;
    }
    for (let k = 0; k < taps; k++) {
      const weight = (sum === 0 ? exact[k]! : exact[k]! / sum) * 2 ** PRECISION_BITS;
      weights[i * width + k] = Math.trunc(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
    first[i] = start;
    count[i] = taps;
  }
  return { first, count, weights, width };
}

function clip8(sum: number): number {
  const value = sum >> PRECISION_BITS;
  return value < 0 ? 0 : value > 255 ? 255 : value;
}

function resampleColumns(
  data: Uint8Array,
  fromWidth: number,
  height: number,
  channels: number,
  taps: Taps,
  toWidth: number,
): Uint8Array {
  const out = new Uint8Array(toWidth * height * channels);
  const { first, count, weights, width } = taps;
  for (let y = 0; y < height; y++) {
    const row = y * fromWidth * channels;
    let to = y * toWidth * channels;
    for (let x = 0; x < toWidth; x++) {
      const start = row + first[x]! * channels;
      const taken = count[x]!;
      for (let c = 0; c < channels; c++) {
        let sum = 1 << (PRECISION_BITS - 1);
        for (let k = 0, from = start + c; k < taken; k++, from += channels) {
          sum += data[from]! * weights[x * width + k]!;
        }
        out[to++] = clip8(sum);
      }
    }
  }
  return out;
}

function resampleRows(data: Uint8Array, stride: number, taps: Taps, toHeight: number): Uint8Array {
  const out = new Uint8Array(stride * toHeight);
  const sums = new Int32Array(stride);
  const { first, count, weights, width } = taps;
  for (let y = 0; y < toHeight; y++) {
    sums.fill(1 << (PRECISION_BITS - 1));
    for (let k = 0; k < count[y]!; k++) {
      const weight = weights[y * width + k]!;
      const row = (first[y]! + k) * stride;
      for (let i = 0; i < stride; i++) sums[i] = sums[i]! + data[row + i]! * weight;
    }
    const to = y * stride;
    for (let i = 0; i < stride; i++) out[to + i] = clip8(sums[i]!);
  }
  return out;
}

/** Positions advance by repeated addition, as in Pillow: the rounding is part of the result. */
function nearestPositions(from: number, to: number): Int32Array {
  const step = from / to;
  const positions = new Int32Array(to);
  let at = step * 0.5;
  for (let i = 0; i < to; i++, at += step) positions[i] = Math.min(from - 1, Math.trunc(at));
  return positions;
}

function pickNearest(
  image: PixelImage,
  width: number,
  height: number,
  channels: number,
): Uint8Array {
  const columns = nearestPositions(image.width, width);
  const rows = nearestPositions(image.height, height);
  const out = new Uint8Array(width * height * channels);
  let to = 0;
  for (const row of rows) {
    for (const column of columns) {
      const from = (row * image.width + column) * channels;
      for (let c = 0; c < channels; c++) out[to++] = image.data[from + c]!;
    }
  }
  return out;
}

/** Colour times alpha / 255, rounded as Pillow rounds it. */
function premultiply(data: Uint8Array): Uint8Array {
  const out = new Uint8Array(data.length);
  for (let i = 0; i < data.length; i += 4) {
    const alpha = data[i + 3]!;
    for (let c = 0; c < 3; c++) {
      const product = data[i + c]! * alpha + 128;
      out[i + c] = (product + (product >> 8)) >> 8;
    }
    out[i + 3] = alpha;
  }
  return out;
}

/** Colour times 255 / alpha, cut off rather than rounded; in place. */
function unpremultiply(data: Uint8Array): void {
  for (let i = 0; i < data.length; i += 4) {
    const alpha = data[i + 3]!;
    if (alpha === 0 || alpha === 255) continue;
    for (let c = 0; c < 3; c++) {
      data[i + c] = Math.min(255, Math.trunc((255 * data[i + c]!) / alpha));
    }
  }
}
