import { type NdArray, ndarray } from "../ndarray.ts";

/** Repeats every pixel of a channels-last image `factor` times in both directions. */
export function upsampleNearestReference(x: NdArray, factor: number): NdArray {
  const [batch, height, width, channels] = x.shape as [number, number, number, number];
  const result = ndarray([batch, height * factor, width * factor, channels]);
  let at = 0;
  for (let b = 0; b < batch; b++) {
    for (let i = 0; i < height * factor; i++) {
      for (let j = 0; j < width * factor; j++) {
        const row = b * height + Math.floor(i / factor);
        const from = (row * width + Math.floor(j / factor)) * channels;
        result.data.set(x.data.subarray(from, from + channels), at);
        at += channels;
      }
    }
  }
  return result;
}
