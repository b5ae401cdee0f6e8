/** Between the transformer's latents, [1, channels, frames, height, width] and normalised, and the autoencoder's. */
import type { Shape } from "../../../runtime/mod.ts";
import type { WanVaeConfig } from "../../autoencoders/wan/config.ts";

/** Latent frames of a clip; numbers of frames that are not 1 + k·temporal are rounded as the reference does. */
export function latentFrameCount(numFrames: number, temporal: number): number {
  const rounded = numFrames % temporal === 1
    ? numFrames
    : Math.floor(numFrames / temporal) * temporal + 1;
  return Math.floor((rounded - 1) / temporal) + 1;
}

/** One latent frame as the decoder takes it: [height, width, channels], value · std + mean. */
export function denormalizeFrame(
  latents: Float32Array,
  frame: number,
  shape: Shape,
  { latents_mean: mean, latents_std: std }: WanVaeConfig,
): Float32Array<ArrayBuffer> {
  const [, channels, frames, height, width] = shape as [number, number, number, number, number];
  const plane = height * width;
  const result = new Float32Array(plane * channels);
  for (let channel = 0; channel < channels; channel++) {
    const start = (channel * frames + frame) * plane;
    for (let i = 0; i < plane; i++) {
      result[i * channels + channel] = latents[start + i]! * std[channel]! + mean[channel]!;
    }
  }
  return result;
}

/**
 * The mean of the encoder's moments, [height, width, 2·channels], as the transformer takes it:
 * [channels, height, width], (value − mean) / std.
 */
export function normalizeMoments(
  moments: Float32Array,
  { latents_mean: mean, latents_std: std, z_dim: channels }: WanVaeConfig,
): Float32Array<ArrayBuffer> {
  const plane = moments.length / (2 * channels);
  const result = new Float32Array(channels * plane);
  for (let i = 0; i < plane; i++) {
    for (let channel = 0; channel < channels; channel++) {
      result[channel * plane + i] = (moments[i * 2 * channels + channel]! - mean[channel]!) /
        std[channel]!;
    }
  }
  return result;
}

/** Puts a given first frame, [channels, height, width], into latents. */
export function replaceFirstFrame(latents: Float32Array, frame: Float32Array, shape: Shape): void {
  const [, channels, frames, height, width] = shape as [number, number, number, number, number];
  const plane = height * width;
  for (let channel = 0; channel < channels; channel++) {
    latents.set(frame.subarray(channel * plane, (channel + 1) * plane), channel * frames * plane);
  }
}

/** Decoded pixels, which may leave [-1, 1] a little, as RGB in [0, 1]. */
export function toUnitRange(pixels: Float32Array): Float32Array<ArrayBuffer> {
  const result = new Float32Array(pixels.length);
  for (let i = 0; i < pixels.length; i++) {
    result[i] = Math.min(1, Math.max(0, pixels[i]! * 0.5 + 0.5));
  }
  return result;
}
