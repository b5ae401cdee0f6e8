/**
 * Clips that came from outside, as the frames that a model starts from.
 *
 * @module
 */

import type { Picture } from "../engine/types.ts";
import { cover } from "../media/cover.ts";
import { type Ffmpeg, readVideo, type VideoInfo } from "../media/video/mod.ts";

/** A video file, and what it says of itself. */
export interface ClipFile {
  /** Absolute. */
  readonly path: string;
  /** As `probeVideo` found it. */
  readonly info: VideoInfo;
}

/** What the frames are to be like. */
export interface ClipShape {
  /** Pixels per row. */
  readonly width: number;
  /** Number of rows. */
  readonly height: number;
  /** How many; a clip that is too short stands still at its end. */
  readonly numFrames: number;
}

/**
 * Decodes a clip.
 *
 * @param ffmpeg the build to use
 * @param file the clip
 * @param options size, number and rate of the frames; `signal` stops it
 * @returns `numFrames` frames
 * @throws {VideoError} when the file is too large, damaged or empty
 */
export async function readClip(
  ffmpeg: Ffmpeg,
  { path, info }: ClipFile,
  options: ClipShape & { readonly fps: number; readonly signal?: AbortSignal | undefined },
): Promise<Picture[]> {
  const { width, height, numFrames, fps, signal } = options;
  const frames: Picture[] = [];
  const reading = readVideo(ffmpeg, path, info, {
    ...{ width, height, fps, signal },
    maxFrames: numFrames,
  });
  for await (const data of reading) frames.push({ width, height, data });
  return standStill(frames, numFrames);
}

/**
 * Brings frames in memory to a shape.
 *
 * @param frames at least one, of any size
 * @param shape size and number of the frames
 * @returns `numFrames` frames
 */
export function fitFrames(
  frames: readonly Picture[],
  { width, height, numFrames }: ClipShape,
): Picture[] {
  return standStill(
    frames.slice(0, numFrames).map((frame) => cover(frame, width, height)),
    numFrames,
  );
}

function standStill(frames: Picture[], numFrames: number): Picture[] {
  while (frames.length < numFrames) frames.push(frames.at(-1)!);
  return frames;
}
