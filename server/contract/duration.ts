/** How long a video of a request is. */

import { checkFps, countFrames, type DurationLimits, isAbsent } from "../../generation/duration.ts";
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

/**
 * Reads how long a video is to be; a number of frames that the model cannot make becomes the nearest
 * that it can.
 *
 * @throws {ApiError} 400 for values that no video can have
 */
export function readDuration(
  fields: DurationFields,
  limits: DurationLimits,
): { numFrames: number; fps: number } {
  const fps = fields.fps ?? limits.fps;
  asClientError("fps", () => checkFps(fps));
  const hasFrames = fields.num_frames !== undefined && fields.num_frames !== null;
  const param = hasFrames || isAbsent(fields.seconds) ? "num_frames" : "seconds";
  const given = { numFrames: fields.num_frames, seconds: fields.seconds };
  return { numFrames: asClientError(param, () => countFrames(given, fps, limits)), fps };
}
