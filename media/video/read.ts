/**
 * Video files to frames.
 *
 * @module
 */

import type { Ffmpeg } from "./ffmpeg.ts";
import type { VideoInfo } from "./probe.ts";
import { openUntrusted, VideoError, videoError } from "./video_file.ts";

/** What to make of a file. */
export interface ReadVideoOptions {
  /** Pixels per row of the frames. */
  readonly width: number;
  /** Rows of the frames. */
  readonly height: number;
  /** Frames per second of the result: frames are repeated or left out. The file's own by default. */
  readonly fps?: number | undefined;
  /** No more frames than this are decoded. */
  readonly maxFrames: number;
  /** Largest width times height of the file that is decoded. */
  readonly maxPixels: number;
  /** Stops it. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Decodes a video. The picture covers the frame: what is too much at the longer side is cut off
 * evenly, and nothing is stretched.
 *
 * @param ffmpeg the build to use
 * @param path absolute path of the file
 * @param info the file as `probeVideo` found it
 * @param options sizes and bounds
 * @returns frames of `width * height * 3` bytes, RGB, row by row, in order
 * @throws {VideoError} when the file is too large, damaged or empty
 */
export async function* readVideo(
  ffmpeg: Ffmpeg,
  path: string,
  info: VideoInfo,
  options: ReadVideoOptions,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const { width, height, fps, maxFrames, maxPixels, signal } = options;
  if (info.width * info.height > maxPixels) {
    throw new VideoError(
      `Cannot read video: its frames are ${info.width}x${info.height}, and ${maxPixels} pixels are allowed; scale it down first`,
    );
  }
  const filters = [
    ...(fps === undefined ? [] : [`fps=${fps}`]),
    `scale=${width}:${height}:force_original_aspect_ratio=increase:flags=bicubic`,
    `crop=${width}:${height}`,
  ];
  const stream = ffmpeg.decode({
    inputs: [path],
    signal,
    arguments: ({ inputs, output }) => [
      ...["-max_pixels", String(maxPixels)],
      ...openUntrusted(inputs[0]!),
      ...["-map", "0:v:0", "-vf", filters.join(), "-frames:v", String(maxFrames)],
      // Without a rate of their own, frames come out as they are stored: none repeated, none lost.
      ...(fps === undefined ? ["-vsync", "passthrough"] : []),
      ...["-f", "rawvideo", "-pix_fmt", "rgb24", output],
    ],
  });
  const frame = new Uint8Array(width * height * 3);
  let filled = 0;
  let count = 0;
  try {
    for await (const bytes of stream) {
      for (let taken = 0; taken < bytes.length;) {
        const part = bytes.subarray(taken, taken + frame.length - filled);
        frame.set(part, filled);
        filled += part.length;
        taken += part.length;
        if (filled < frame.length) continue;
        filled = 0;
        count++;
        yield frame.slice();
      }
    }
  } catch (error) {
    throw videoError(error);
  }
  if (count === 0) throw new VideoError("Cannot read video: no frame of it could be decoded");
}
