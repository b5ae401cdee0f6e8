/** Pixels as autoencoders take and give them. */

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
