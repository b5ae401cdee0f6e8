/**
 * What a video file says of itself.
 *
 * @module
 */

import type { Ffmpeg } from "./ffmpeg.ts";
import { openUntrusted, VideoError, videoError } from "./video_file.ts";

/** A video file, without having decoded it. */
export interface VideoInfo {
  /** Pixels per row, as stored: before any rotation that the file asks for. */
  readonly width: number;
  /** Number of rows, as stored. */
  readonly height: number;
  /** Number of frames, at least 1; those beyond 100 000 are not counted. */
  readonly frames: number;
  /** Frames per second, on average. */
  readonly fps: number;
  /** Codec of the first audio track, such as `aac`. */
  readonly audioCodec?: string;
}

/** Packets of a track that are looked at, over an hour of them: a file may hold millions of nothing. */
const MAX_PACKETS = 100_000;

/** Frames per second of a file that has one frame and does not say how long it lasts. */
const STILL_FPS = 24;

/**
 * Reads the container: sizes, frames and times of the packets.
 *
 * @param ffmpeg the build to use
 * @param path absolute path of the file
 * @param options `signal` stops it
 * @returns what the file says
 * @throws {VideoError} when it cannot be read or holds no picture
 */
export async function probeVideo(
  ffmpeg: Ffmpeg,
  path: string,
  { signal }: { signal?: AbortSignal } = {},
): Promise<VideoInfo> {
  const listing = ffmpeg.decode({
    inputs: [path],
    signal,
    arguments: ({ inputs, output }) => [
      ...openUntrusted(inputs[0]!),
      ...["-map", "0:v:0", "-map", "0:a:0?", "-c", "copy"],
      ...["-frames:v", String(MAX_PACKETS), "-frames:a", String(MAX_PACKETS)],
      ...["-f", "framecrc", output],
    ],
  });
  try {
    return parseListing(
      await new Response(listing as ReadableStream<Uint8Array<ArrayBuffer>>).text(),
    );
  } catch (error) {
    throw videoError(error);
  }
}

/**
 * Reads a listing of packets, FFmpeg's `framecrc`, of a video track and perhaps an audio track.
 *
 * @param text lines `#key track: value`, then `track, dts, pts, duration, size, checksum`
 * @returns what it says of the video
 * @throws {VideoError} when it lists no picture
 */
export function parseListing(text: string): VideoInfo {
  const headers = new Map<string, string>();
  let frames = 0;
  let [begin, end] = [Infinity, -Infinity];
  for (const line of text.split("\n")) {
    const header = /^#(\w+) (\d+): (.*)/.exec(line);
    if (header) headers.set(`${header[1]} ${header[2]}`, header[3]!);
    const [track, , pts, duration] = line.split(",").map(Number);
    if (header || track !== 0 || pts === undefined || duration === undefined) continue;
    frames++;
    begin = Math.min(begin, pts);
    end = Math.max(end, pts + duration);
  }
  const [width = 0, height = 0] = (headers.get("dimensions 0") ?? "").split("x").map(Number);
  if (!(width > 0 && height > 0 && frames > 0)) {
    throw new VideoError("Cannot read video: the file holds no picture");
  }
  const [ticks = 0, perSecond = 0] = (headers.get("tb 0") ?? "").split("/").map(Number);
  const seconds = (end - begin) * ticks / perSecond;
  const audioCodec = headers.get("codec_id 1");
  return {
    width,
    height,
    frames,
    fps: seconds > 0 ? frames / seconds : STILL_FPS,
    ...(audioCodec === undefined ? {} : { audioCodec }),
  };
}
