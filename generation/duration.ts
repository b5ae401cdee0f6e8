/** How long a video is: frames and frames per second. */

import { nearestFrames } from "../engine/result_size.ts";

export interface GivenDuration {
  /** Frames; wins over `seconds`. */
  readonly numFrames?: number | null | undefined;
  /** Seconds; a text of a whole number too. */
  readonly seconds?: number | string | null | undefined;
}

export interface DurationLimits {
  /** Frames of a request that says nothing. */
  readonly numFrames: number;
  /** Frames per second of a request that says nothing. */
  readonly fps: number;
  /** Videos have `k * frameMultiple + 1` frames. */
  readonly frameMultiple: number;
  readonly maxFrames: number;
}

/** Highest rate that players are asked to show. */
const MAX_FPS = 240;

/** @throws {RangeError} unless it is above 0 and at most 240 */
export function checkFps(fps: number): void {
  if (!(fps > 0)) throw new RangeError(`fps must be a positive int, got ${fps}`);
  if (fps > MAX_FPS) throw new RangeError(`fps must be at most ${MAX_FPS}, got ${fps}`);
}

/** Highest rate of a file: level 6 of H.264 gives a decoder a 300th of a second for a frame. */
const MAX_FILE_FPS = 300;

/** @throws {RangeError} where frames between frames make the rate higher than a file may have */
export function checkRate(fps: number): void {
  if (fps <= MAX_FILE_FPS) return;
  throw new RangeError(
    `Cannot make a video of ${fps} frames per second: H.264 has at most ${MAX_FILE_FPS}; ` +
      "ask for a lower fps, or double the frames less often",
  );
}

/** The nearest number of frames that the model can make, `k * frameMultiple + 1`. */
export function countFrames(given: GivenDuration, fps: number, limits: DurationLimits): number {
  const numFrames = nearestFrames(wantedFrames(given, fps, limits), limits);
  if (numFrames > limits.maxFrames) {
    throw new RangeError(
      `Cannot make ${numFrames} frames: this model makes at most ${limits.maxFrames}, ` +
        `which is ${(limits.maxFrames / fps).toFixed(1)} s at ${fps} frames per second`,
    );
  }
  return numFrames;
}

/** The number of frames that a request asks for, which the model may not be able to make. */
export function wantedFrames(
  { numFrames, seconds }: GivenDuration,
  fps: number,
  limits: Pick<DurationLimits, "numFrames">,
): number {
  if (numFrames !== undefined && numFrames !== null) {
    if (!(numFrames > 0)) throw new RangeError("num_frames must be positive");
    return numFrames;
  }
  if (isAbsent(seconds)) return limits.numFrames;
  // The generic API sends the number as a text.
  const number = typeof seconds === "number"
    ? seconds
    : /^\s*\d{1,6}\s*$/.test(seconds)
    ? Number(seconds)
    : NaN;
  if (!(number > 0)) throw new RangeError(`seconds must be a positive int, got ${seconds}`);
  return number * fps;
}

export function isAbsent(seconds: GivenDuration["seconds"]): seconds is undefined | null | "" {
  return seconds === undefined || seconds === null || seconds === "";
}
