/** Pixels as autoencoders take and give them. */
import type { InputImage } from "./types.ts";

/** Decoded pixels, which may leave [-1, 1] a little, as RGB in [0, 1]. */
export function toUnitRange(pixels: Float32Array): Float32Array<ArrayBuffer> {
  const result = new Float32Array(pixels.length);
  for (let i = 0; i < pixels.length; i++) {
    result[i] = Math.min(1, Math.max(0, pixels[i]! * 0.5 + 0.5));
  }
  return result;
}

/** Bytes of an image as the autoencoder takes them, in [-1, 1]. */
export function toSignedRange(bytes: Uint8Array): Float32Array<ArrayBuffer> {
  return Float32Array.from(bytes, (value) => value / 255 * 2 - 1);
}

/** An image as autoencoders with alpha take it: opaque if it has none. */
export function withAlpha(image: InputImage): InputImage {
  const { width, height, data, alpha } = image;
  const rgba = new Uint8Array(width * height * 4);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) rgba[4 * i + c] = data[3 * i + c]!;
    rgba[4 * i + 3] = alpha?.[i] ?? 255;
  }
  return { ...image, data: rgba };
}

/** RGBA in [0, 1], laid on white. */
export function overWhite(pixels: Float32Array): Float32Array<ArrayBuffer> {
  const rgb = new Float32Array(pixels.length / 4 * 3);
  for (let i = 0; i < rgb.length; i++) {
    const from = 4 * Math.floor(i / 3);
    const alpha = pixels[from + 3]!;
    rgb[i] = pixels[from + i % 3]! * alpha + 1 - alpha;
  }
  return rgb;
}
