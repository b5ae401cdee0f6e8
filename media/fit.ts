/** Images of any shape, brought to the size in which a model takes them. */

import { channelsOf, crop, type PixelImage, type RgbImage, toRgb } from "./image.ts";
import { resize, type ResizeFilter } from "./resize.ts";

interface Sides {
  readonly width: number;
  readonly height: number;
}

export type Fit =
  & FitWay
  & {
    /** Whether the image's transparency stays. */
    readonly keepsAlpha?: boolean;
    /** Pixels by which the image grows first: left, top, right, bottom; its edges are repeated there. */
    readonly outpaint?: readonly number[] | undefined;
  };

type FitWay =
  /** Covers a frame; what is too much at the longer side is cut off evenly. */
  | { readonly cover: Sides }
  /** Scales the image and cuts out its middle; with Lanczos's filter unless another is named. */
  | { readonly scaled: Sides; readonly cut: Sides; readonly filter?: ResizeFilter }
  /** Shows all of the image in the middle of a black frame. */
  | { readonly contain: Sides }
  /** Scales the image with Lanczos's filter, and mirrors its edges until it fills a frame around it. */
  | { readonly scaled: Sides; readonly mirrored: Sides; readonly isEdgeRepeated: boolean };

/** Brings an image to a size; what is transparent in it lies on white. */
export function fit(image: PixelImage, how: Fit): RgbImage {
  return toRgb(fitPixels(grown(toRgb(image), how.outpaint), how));
}

/** Brings an image to a size, and keeps its transparency where `how` says so. */
export function fitWithAlpha(image: PixelImage, how: Fit): PixelImage {
  return how.keepsAlpha ? fitPixels(grown(image, how.outpaint), how) : fit(image, how);
}

/** The size of an image that grows to its sides. */
export function grownSize(
  { width, height }: Sides,
  [left = 0, top = 0, right = 0, bottom = 0]: readonly number[] = [],
): Sides {
  return { width: left + width + right, height: top + height + bottom };
}

/** An image that has grown, with its edges repeated. */
function grown<Image extends PixelImage>(
  image: Image,
  sides: readonly number[] | undefined,
): Image {
  if (!sides) return image;
  const [left = 0, top = 0] = sides;
  const size = grownSize(image, sides);
  const step = channelsOf(image);
  const data = new Uint8Array(size.width * size.height * step);
  const inside = (at: number, count: number) => Math.min(count - 1, Math.max(0, at));
  for (let y = 0, to = 0; y < size.height; y++) {
    const row = inside(y - top, image.height) * image.width;
    for (let x = 0; x < size.width; x++, to += step) {
      const from = (row + inside(x - left, image.width)) * step;
      data.set(image.data.subarray(from, from + step), to);
    }
  }
  return { ...image, ...size, data };
}

function fitPixels(image: PixelImage, how: Fit): PixelImage {
  if ("cover" in how) return cover(image, how.cover.width, how.cover.height);
  if ("contain" in how) return contain(image, how.contain);
  if ("mirrored" in how) {
    const { scaled, mirrored, isEdgeRepeated } = how;
    return mirrorEdges(resize(image, scaled.width, scaled.height), mirrored, isEdgeRepeated);
  }
  const { scaled, cut, filter } = how;
  const resized = resize(image, scaled.width, scaled.height, filter);
  const left = Math.floor((scaled.width - cut.width) / 2);
  const top = Math.floor((scaled.height - cut.height) / 2);
  return crop(resized, left, top, cut.width, cut.height);
}

/** An image in the middle of a frame that its reflections fill, with its last pixels once or twice at each edge. */
function mirrorEdges(image: PixelImage, frame: Sides, isEdgeRepeated: boolean): PixelImage {
  const left = Math.floor((frame.width - image.width) / 2);
  const top = Math.floor((frame.height - image.height) / 2);
  const step = channelsOf(image);
  const data = new Uint8Array(frame.width * frame.height * step);
  const columns = reflections(image.width, left, frame.width, isEdgeRepeated);
  const rows = reflections(image.height, top, frame.height, isEdgeRepeated);
  let to = 0;
  for (const row of rows) {
    for (const column of columns) {
      const from = (row * image.width + column) * step;
      data.set(image.data.subarray(from, from + step), to);
      to += step;
    }
  }
  return { ...image, ...frame, data };
}

/** Where each of `total` positions comes from in a row of `count`, which begins behind `before` reflected ones. */
function reflections(
  count: number,
  before: number,
  total: number,
  isEdgeRepeated: boolean,
): Int32Array {
  const edge = isEdgeRepeated ? 0 : 1;
  const period = Math.max(1, 2 * (count - edge));
  return Int32Array.from({ length: total }, (_, i) => {
    const place = (((i - before) % period) + period) % period;
    return place < count ? place : period - 1 + edge - place;
  });
}

/** The size of an image that was scaled until it fits into a frame. */
export function sizeInside(image: Sides, frame: Sides): Sides {
  const scale = Math.min(frame.width / image.width, frame.height / image.height);
  return {
    width: Math.max(1, Math.min(frame.width, Math.round(image.width * scale))),
    height: Math.max(1, Math.min(frame.height, Math.round(image.height * scale))),
  };
}

function contain(image: PixelImage, frame: Sides): PixelImage {
  const { width, height } = sizeInside(image, frame);
  const small = resize(image, width, height);
  const step = channelsOf(image);
  const [left, top] = [(frame.width - width) >> 1, (frame.height - height) >> 1];
  const data = new Uint8Array(frame.width * frame.height * step);
  for (let y = 0; y < height; y++) {
    const row = small.data.subarray(y * width * step, (y + 1) * width * step);
    data.set(row, ((top + y) * frame.width + left) * step);
  }
  return { ...small, ...frame, data };
}

/** Makes an image cover a frame: nothing is stretched, and what is too much at the longer side is cut off evenly. */
export function cover<T extends PixelImage>(image: T, width: number, height: number): T {
  // Cut first: an image of one column, scaled to cover a square, would be huge in between.
  const scale = Math.min(image.width / width, image.height / height);
  const keptWidth = Math.min(image.width, Math.max(1, Math.round(width * scale)));
  const keptHeight = Math.min(image.height, Math.max(1, Math.round(height * scale)));
  const left = Math.floor((image.width - keptWidth) / 2);
  const top = Math.floor((image.height - keptHeight) / 2);
  return resize(crop(image, left, top, keptWidth, keptHeight), width, height);
}
