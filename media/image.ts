/** Pixels in memory: eight bits per channel, rows from top to bottom, channels interleaved. */

/** An opaque image. `data` holds `width * height * 3` bytes: R, G, B for each pixel, row by row. */
export interface RgbImage {
  /** Pixels per row, at least 1. */
  readonly width: number;
  /** Number of rows, at least 1. */
  readonly height: number;
  /** Bytes per pixel. May be omitted: an image that does not say is RGB. */
  readonly channels?: 3;
  /** The samples, 0 to 255, in sRGB as every file format here has them. */
  readonly data: Uint8Array;
}

/** An image with straight (not premultiplied) alpha: `width * height * 4` bytes, R, G, B, A. */
export interface RgbaImage {
  /** Pixels per row, at least 1. */
  readonly width: number;
  /** Number of rows, at least 1. */
  readonly height: number;
  /** Bytes per pixel, which tells this type from {@link RgbImage}. */
  readonly channels: 4;
  /** The samples, 0 to 255; alpha 0 is transparent. */
  readonly data: Uint8Array;
}

/** What the encoders and the resizer take: RGB, or RGB with alpha. */
export type PixelImage = RgbImage | RgbaImage;

/** Thrown when foreign bytes cannot be used as an image; a server answers it with a client error. */
export class ImageError extends Error {
  override readonly name = "ImageError";
}

/** Bytes per pixel of an image: 3 for RGB, 4 for RGBA. */
export function channelsOf(image: PixelImage): 3 | 4 {
  return image.channels ?? 3;
}

export function checkImage(image: PixelImage): void {
  const { width, height, data } = image;
  if (!Number.isSafeInteger(width) || !Number.isSafeInteger(height) || width < 1 || height < 1) {
    throw new RangeError(
      `Cannot use image: its size is ${width}x${height}, and both sides must be positive integers`,
    );
  }
  const expected = width * height * channelsOf(image);
  if (data.length !== expected) {
    throw new RangeError(
      `Cannot use image: ${width}x${height} with ${channelsOf(image)} channels needs ` +
        `${expected} bytes, and it has ${data.length}`,
    );
  }
}

/** Checks an image for a format of files with a limit of its sides. */
export function checkEncodable(image: PixelImage, format: string, maxSide: number): void {
  checkImage(image);
  const { width, height } = image;
  if (width > maxSide || height > maxSide) {
    throw new RangeError(
      `Cannot encode ${format}: ${width}x${height} is more than ${maxSide} a side; use PNG`,
    );
  }
}

/** The RGB samples of an image; what is transparent lies on white, so that colours under alpha stay hidden. */
export function toRgb(image: PixelImage): RgbImage {
  if (image.channels !== 4) return image;
  const { width, height, data } = image;
  return { width, height, data: onWhite(data) };
}

/** RGBA samples laid on white: three bytes for every four. */
export function onWhite(data: Uint8Array): Uint8Array<ArrayBuffer> {
  const rgb = new Uint8Array(data.length / 4 * 3);
  for (let from = 0, to = 0; to < rgb.length; from += 4, to += 3) {
    const alpha = data[from + 3]!;
    if (alpha === 0) {
      rgb.fill(255, to, to + 3);
      continue;
    }
    for (let channel = 0; channel < 3; channel++) {
      const sample = data[from + channel]!;
      rgb[to + channel] = alpha === 255
        ? sample
        : Math.round((sample * alpha + 255 * (255 - alpha)) / 255);
    }
  }
  return rgb;
}

/** Whether nothing of RGBA samples is transparent. */
export function isOpaque(rgba: Uint8Array): boolean {
  for (let i = 3; i < rgba.length; i += 4) if (rgba[i] !== 255) return false;
  return true;
}

/** The samples with alpha, which the built-in and wasm codecs want. */
export function toRgba(image: PixelImage): RgbaImage {
  if (image.channels === 4) return image;
  const { width, height, data } = image;
  const rgba = new Uint8Array(width * height * 4);
  for (let from = 0, to = 0; to < rgba.length; from += 3, to += 4) {
    rgba[to] = data[from]!;
    rgba[to + 1] = data[from + 1]!;
    rgba[to + 2] = data[from + 2]!;
    rgba[to + 3] = 255;
  }
  return { width, height, channels: 4, data: rgba };
}

export function crop<T extends PixelImage>(
  image: T,
  x: number,
  y: number,
  width: number,
  height: number,
): T {
  checkImage(image);
  const whole = [x, y, width, height].every(Number.isSafeInteger);
  const inside = x >= 0 && y >= 0 && x + width <= image.width && y + height <= image.height;
  if (!whole || !inside || width < 1 || height < 1) {
    throw new RangeError(
      `Cannot crop ${width}x${height} at (${x}, ${y}): it does not lie inside the ` +
        `${image.width}x${image.height} image`,
    );
  }
  const channels = channelsOf(image);
  const data = new Uint8Array(width * height * channels);
  for (let row = 0; row < height; row++) {
    const start = ((y + row) * image.width + x) * channels;
    data.set(image.data.subarray(start, start + width * channels), row * width * channels);
  }
  return { ...image, width, height, data };
}
