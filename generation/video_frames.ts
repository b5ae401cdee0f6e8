/** Videos that came from outside, as the frames that a model starts from. */

import type { Image } from "../engine/types.ts";
import { fit } from "../media/fit.ts";
import { type Ffmpeg, readVideo, type VideoInfo } from "../media/video/mod.ts";

export interface VideoFile {
  /** Absolute. */
  readonly path: string;
  readonly info: VideoInfo;
}

export interface VideoShape {
  /** Pixels per row. */
  readonly width: number;
  /** Number of rows. */
  readonly height: number;
  /** How many; a video that is too short stands still at its end. */
  readonly numFrames: number;
  /** Whether frames are taken from the video's end and not from its beginning. */
  readonly isEnd?: boolean;
  /** Whether all of the image is shown, on black, and nothing of it is cut off. */
  readonly isContained?: boolean;
}

/** Decodes `numFrames` frames. @throws {VideoError} when the file is too large, damaged or empty */
export async function readFrames(
  ffmpeg: Ffmpeg,
  { path, info }: VideoFile,
  options: VideoShape & { readonly fps: number; readonly signal?: AbortSignal | undefined },
): Promise<Image[]> {
  const { width, height, numFrames, isEnd = false, isContained, fps, signal } = options;
  const frames: Image[] = [];
  const reading = readVideo(ffmpeg, path, info, {
    width,
    height,
    fps,
    signal,
    isContained,
    maxFrames: isEnd ? wholeLength(info, fps) : numFrames,
  });
  for await (const data of reading) {
    frames.push({ width, height, data });
    if (frames.length > numFrames) frames.shift();
  }
  return isEnd ? frames : standStill(frames, numFrames);
}

export function fitFrames(
  frames: readonly Image[],
  { width, height, numFrames, isEnd = false, isContained = false }: VideoShape,
): Image[] {
  const part = isEnd ? frames.slice(-numFrames) : frames.slice(0, numFrames);
  const frame = { width, height };
  const fitted = part.map((image) =>
    fit(image, isContained ? { contain: frame } : { cover: frame })
  );
  return isEnd ? fitted : standStill(fitted, numFrames);
}

/** Frames that a whole video has at another rate. */
export function wholeLength({ frames, fps: own }: VideoInfo, fps: number): number {
  return Math.ceil(frames / own * fps) + 1;
}

/** Frames that a result has which follows a whole video at another rate; at least 1. */
export function followedLength({ frames, fps: own }: VideoInfo, fps: number): number {
  return Math.max(1, Math.floor(frames / own * fps + 1e-6));
}

function standStill(frames: Image[], numFrames: number): Image[] {
  while (frames.length < numFrames) frames.push(frames.at(-1)!);
  return frames;
}
