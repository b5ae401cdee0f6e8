/** Width and height of a request: reading them, and what a model can make. */

import type { ImageLimits } from "../engine/types.ts";

/** A size in pixels. */
export interface Size {
  /** Pixels per row. */
  width: number;
  /** Number of rows. */
  height: number;
}

/** What a model says of the sizes it can make. */
interface SizeLimits {
  /** Pixels that both sides must be multiples of. */
  readonly sizeMultiple: number;
  /** Largest width times height. */
  readonly maxPixels: number;
}

/** Reads `<width>x<height>`, both at least 1; case and spaces do not matter. @throws {RangeError} for anything else */
export function parseSize(text: string): Size {
  const match = /^(\d{1,9})[x×](\d{1,9})$/i.exec(text.replace(/\s+/g, ""));
  const [width, height] = [Number(match?.[1]), Number(match?.[2])];
  if (!(width > 0 && height > 0)) {
    throw new RangeError("size must be formatted as positive WIDTHxHEIGHT");
  }
  return { width, height };
}

/** @throws {RangeError} that names the nearest size that works */
export function checkSize(size: Size, limits: SizeLimits): void {
  const { width, height } = size;
  const { sizeMultiple, maxPixels } = limits;
  for (const [name, side] of [["width", width], ["height", height]] as const) {
    if (!Number.isSafeInteger(side) || side <= 0) {
      throw new RangeError(`${name} must be positive`);
    }
  }
  const nearest = nearestSize(size, limits);
  const instead = `the nearest size is ${nearest.width}x${nearest.height}`;
  if (width % sizeMultiple !== 0 || height % sizeMultiple !== 0) {
    throw new RangeError(
      `Cannot generate ${width}x${height}: this model makes sides that are multiples of ` +
        `${sizeMultiple}; ${instead}`,
    );
  }
  if (width * height > maxPixels) {
    throw new RangeError(
      `Cannot generate ${width}x${height}: this model makes at most ${maxPixels} pixels; ${instead}`,
    );
  }
}

/** The valid size closest to the one asked for, in about the same shape. */
export function nearestSize(size: Size, limits: SizeLimits): Size {
  const { sizeMultiple: step, maxPixels } = limits;
  const scale = Math.min(1, Math.sqrt(maxPixels / (size.width * size.height)));
  const round = (side: number) => Math.max(step, Math.round((side * scale) / step) * step);
  let [width, height] = [round(size.width), round(size.height)];
  // Very long shapes: the short side has reached its minimum, so the long one has to give way.
  if (width * height > maxPixels) {
    const fit = (other: number) => Math.max(step, Math.floor(maxPixels / other / step) * step);
    if (width >= height) width = fit(height);
    else height = fit(width);
  }
  return { width, height };
}

/** A size in the shape of an image, of about as many pixels as `area`, within the limits. */
export function sizeLike(shape: Size, area: Size, limits: SizeLimits): Size {
  const scale = Math.sqrt((area.width * area.height) / (shape.width * shape.height));
  return nearestSize({ width: shape.width * scale, height: shape.height * scale }, limits);
}

/** The largest size in the shape of an image within a budget of pixels; one multiple each way where that holds no more. */
export function sizeWithin(shape: Size, budget: Size, sizeMultiple: number): Size {
  const pixels = budget.width * budget.height;
  const scale = Math.sqrt(pixels / (shape.width * shape.height));
  const floor = (side: number) =>
    Math.max(sizeMultiple, Math.floor(side / sizeMultiple) * sizeMultiple);
  const [width, height] = [floor(shape.width * scale), floor(shape.height * scale)];
  // Where one side has reached its minimum, the other has to give way.
  return {
    width: Math.min(width, floor(pixels / height)),
    height: Math.min(height, floor(pixels / width)),
  };
}

/** How an image that keeps its own size is brought to what a model takes: scaled, then cut. */
interface OwnSize {
  /** Size of the image after scaling; as it came unless it has too many pixels. */
  scaled: Size;
  /** Size of the image after cutting. */
  cut: Size;
}

/**
 * How an image keeps its own size as far as a model lets it.
 *
 * Source: diffusers `Flux2KleinPipeline` and its `Flux2ImageProcessor`; `FluxKontextPipeline` for models that take a few
 * sizes only.
 *
 * @param size as it came
 * @param limits of the model
 * @returns both sizes
 * @throws {RangeError} when it is too small, or one side is much longer than the other
 */
export function keepOwnSize({ width, height }: Size, limits: ImageLimits): OwnSize {
  const { multiple, maxPixels, minSide, maxAspect, sizes } = limits;
  const [short, long] = [Math.min(width, height), Math.max(width, height)];
  if (short < minSide) {
    throw new RangeError(
      `Cannot use an image of ${width}x${height}: this model takes sides of at least ${minSide} pixels; send a larger one`,
    );
  }
  if (long > maxAspect * short) {
    throw new RangeError(
      `Cannot use an image of ${width}x${height}: for this model one side may be at most ${maxAspect} times the other; cut it first`,
    );
  }
  if (sizes) {
    // The reference takes the shape of the image as it would be in whole tokens.
    const whole = (side: number) => Math.max(multiple, side - side % multiple);
    const shape = whole(width) / whole(height);
    const distance = ([w, h]: readonly [number, number]) => Math.abs(shape - w / h);
    const nearest = sizes.reduce((best, size) => (distance(size) < distance(best) ? size : best));
    const scaled = { width: nearest[0], height: nearest[1] };
    return { scaled, cut: scaled };
  }
  const scale = width * height > maxPixels ? Math.sqrt(maxPixels / (width * height)) : 1;
  const scaled = { width: Math.floor(width * scale), height: Math.floor(height * scale) };
  const floor = (side: number) => Math.floor(side / multiple) * multiple;
  return { scaled, cut: { width: floor(scaled.width), height: floor(scaled.height) } };
}
