/** Sizes and rates of results: those that a request asks for, or higher ones where it asks for that, too. */
import type { ModelInfo, SamplingSettings, Size } from "./types.ts";

/** Most pixels of an enlarged result: frames of it are in memory as bytes and as f32. */
const MAX_PIXELS = 4096 * 4096;

/** How many times longer upscaling makes the sides of a result, where the request does not say. */
const DEFAULT_UPSCALING = 4;

/** What a request says of the size of its result. */
export type SizedRequest = Size & Pick<SamplingSettings, "enableUpscaling" | "upscalingScale">;

/** The size of what comes of a request. */
export function resultSize(
  { width, height, enableUpscaling, upscalingScale = DEFAULT_UPSCALING }: SizedRequest,
): Size {
  return enableUpscaling ? scaledSize({ width, height }, upscalingScale) : { width, height };
}

/** A size with sides that are so many times longer. */
export function scaledSize({ width, height }: Size, scale: number): Size {
  return { width: width * scale, height: height * scale };
}

/**
 * Refuses results that are too large.
 *
 * @throws {RangeError} with the size and the limit
 */
export function checkResultSize(request: SizedRequest): void {
  const { width, height } = resultSize(request);
  if (!request.enableUpscaling || width * height <= MAX_PIXELS) return;
  throw new RangeError(
    `Cannot upscale ${request.width}x${request.height} to ${width}x${height}: results have at most ${MAX_PIXELS} pixels; ` +
      "ask for a smaller size or a smaller scale",
  );
}

/** Frames per second of a video that shows as long as it would without frames between. */
export function resultRate(
  fps: number,
  { enableFrameInterpolation, frameInterpolationExp = 1, numFrames }:
    & Pick<SamplingSettings, "enableFrameInterpolation" | "frameInterpolationExp">
    & { readonly numFrames: number },
): number {
  return enableFrameInterpolation && numFrames > 1 ? fps * 2 ** frameInterpolationExp : fps;
}

/** The number of frames that a model can make and that is nearest to another. */
export function nearestFrames(
  frames: number,
  { frameMultiple: step }: Pick<ModelInfo, "frameMultiple">,
): number {
  return Math.round((frames - 1) / step) * step + 1;
}
