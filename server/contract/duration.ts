/**
 * How long a clip is: frames and frames per second.
 *
 * @module
 */

import { badRequest } from "./errors.ts";

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
  if (fps <= 0) throw badRequest(`fps must be a positive int, got ${fps}`, "fps");
  if (fps > MAX_FPS) throw badRequest(`fps must be at most ${MAX_FPS}, got ${fps}`, "fps");
  const { wanted, param } = wantedFrames(fields, fps, limits);
  const step = limits.frameMultiple;
  const numFrames = Math.round((wanted - 1) / step) * step + 1;
  if (numFrames > limits.maxFrames) {
    throw badRequest(
      `Cannot make ${numFrames} frames: this model makes at most ${limits.maxFrames}, ` +
        `which is ${(limits.maxFrames / fps).toFixed(1)} s at ${fps} frames per second`,
      param,
    );
  }
  return { numFrames, fps };
}

function wantedFrames(
  { num_frames, seconds }: DurationFields,
  fps: number,
  limits: DurationLimits,
): { wanted: number; param: string } {
  if (num_frames !== undefined && num_frames !== null) {
    if (num_frames <= 0) throw badRequest("num_frames must be positive", "num_frames");
    return { wanted: num_frames, param: "num_frames" };
  }
  if (seconds === undefined || seconds === null || seconds === "") {
    return { wanted: limits.numFrames, param: "num_frames" };
  }
  // The generic API sends the number as a text.
  const number = typeof seconds === "number"
    ? seconds
    : /^\s*\d{1,6}\s*$/.test(seconds)
    ? Number(seconds)
    : NaN;
  if (!(number > 0)) throw badRequest(`seconds must be a positive int, got ${seconds}`, "seconds");
  return { wanted: number * fps, param: "seconds" };
}
