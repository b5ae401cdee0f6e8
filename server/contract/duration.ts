/**
 * How long a clip is: frames and frames per second.
 *
 * @module
 */

import { asClientError } from "./checks.ts";

/** What a request says. */
export interface DurationFields {
  /** Frames; wins over `seconds`. */
  num_frames?: number | null | undefined;
  /** Whole seconds. */
  seconds?: number | string | null | undefined;
  /** Frames per second. */
  fps?: number | null | undefined;
}

/** What a model makes. */
export interface DurationLimits {
  /** Frames of a request that says nothing. */
  readonly numFrames: number;
  /** Frames per second of a request that says nothing. */
  readonly fps: number;
  /** Clips have `k * frameMultiple + 1` frames. */
  readonly frameMultiple: number;
  /** Most frames. */
  readonly maxFrames: number;
}

/** Highest rate that players are asked to show. */
const MAX_FPS = 240;

/**
 * Reads how long a clip is to be; a number of frames that the model cannot make becomes the nearest
 * that it can.
 *
 * @param fields of the right types
 * @param limits of the model
 * @returns frames and their rate
 * @throws {ApiError} 400 for values that no clip can have
 */
export function readDuration(
  fields: DurationFields,
  limits: DurationLimits,
): { numFrames: number; fps: number } {
  const fps = fields.fps ?? limits.fps;
  asClientError("fps", () => checkFps(fps));
  const hasFrames = fields.num_frames !== undefined && fields.num_frames !== null;
  const param = hasFrames || isAbsent(fields.seconds) ? "num_frames" : "seconds";
  return { numFrames: asClientError(param, () => countFrames(fields, fps, limits)), fps };
}

/**
 * Checks a number of frames per second.
 *
 * @param fps a number
 * @throws {RangeError} unless it is above 0 and at most 240
 */
export function checkFps(fps: number): void {
  if (!(fps > 0)) throw new RangeError(`fps must be a positive int, got ${fps}`);
  if (fps > MAX_FPS) throw new RangeError(`fps must be at most ${MAX_FPS}, got ${fps}`);
}

/**
 * The number of frames of a clip, the nearest that the model can make.
 *
 * @param fields frames or seconds
 * @param fps frames per second, checked
 * @param limits of the model
 * @returns `k * frameMultiple + 1`
 * @throws {RangeError} for a length that no clip can have, or that the model cannot make
 */
export function countFrames(fields: DurationFields, fps: number, limits: DurationLimits): number {
  const step = limits.frameMultiple;
  const numFrames = Math.round((wantedFrames(fields, fps, limits) - 1) / step) * step + 1;
  if (numFrames > limits.maxFrames) {
    throw new RangeError(
      `Cannot make ${numFrames} frames: this model makes at most ${limits.maxFrames}, ` +
        `which is ${(limits.maxFrames / fps).toFixed(1)} s at ${fps} frames per second`,
    );
  }
  return numFrames;
}

function wantedFrames(
  { num_frames, seconds }: DurationFields,
  fps: number,
  limits: DurationLimits,
): number {
  if (num_frames !== undefined && num_frames !== null) {
    if (!(num_frames > 0)) throw new RangeError("num_frames must be positive");
    return num_frames;
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

function isAbsent(seconds: DurationFields["seconds"]): seconds is undefined | null | "" {
  return seconds === undefined || seconds === null || seconds === "";
}
