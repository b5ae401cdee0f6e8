/**
 * What a video file says of itself.
 *
 * @module
 */

import { Slots } from "../isolated/slots.ts";
import type { Ffmpeg } from "./ffmpeg.ts";
import {
  MAX_VIDEO_PIXELS,
  openUntrusted,
  PROBE_LIMITS,
  VideoError,
  videoError,
} from "./video_file.ts";

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

/** Longest video that is read, in seconds: a day. */
const MAX_SECONDS = 24 * 60 * 60;

/** Most frames per second of a video that is read. */
const MAX_FPS = 1000;

/** Two videos are looked at the same time, and so many wait. */
const probing = new Slots({ count: 2, perClient: 1, waiting: 128 });

/**
 * Reads the container: sizes, frames and times of the packets.
 *
 * @param ffmpeg the build to use
 * @param path absolute path of the file
 * @param options `signal` stops it
 * @returns what the file says
 * @throws {VideoError} when it cannot be read, holds no image, or is too large, too long or too fast
 * @throws {BusyError} when too many wait
 */
export async function probeVideo(
  ffmpeg: Ffmpeg,
  path: string,
  { signal }: { signal?: AbortSignal } = {},
): Promise<VideoInfo> {
  return await probing.run(async () => {
    const listing = new Listing();
    try {
      const stream = ffmpeg.decode({
        inputs: [path],
        signal,
        limits: PROBE_LIMITS,
        arguments: ({ inputs, output }) => [
          ...openUntrusted(inputs[0]!, "all"),
          ...["-map", "0:v:0", "-map", "0:a:0?", "-c", "copy"],
          ...["-frames:v", String(MAX_PACKETS), "-frames:a", String(MAX_PACKETS)],
          ...["-f", "framecrc", output],
        ],
      });
      const text = stream as ReadableStream<Uint8Array<ArrayBuffer>>;
      for await (const part of text.pipeThrough(new TextDecoderStream())) listing.add(part);
    } catch (error) {
      throw videoError(error);
    }
    return listing.end();
  }, { signal });
}

/** A listing of packets, FFmpeg's `framecrc`, of a video track and perhaps an audio track. */
export class Listing {
  readonly #headers = new Map<string, string>();
  #frames = 0;
  #begin = Infinity;
  #end = -Infinity;
  #rest = "";

  /**
   * Takes the next part.
   *
   * @param text of lines `#key track: value`, then `track, dts, pts, duration, size, checksum`; the
   * last line may go on in the next part
   */
  add(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    for (const line of lines) this.#addLine(line);
  }

  /**
   * Says that this was all.
   *
   * @returns what it says of the video
   * @throws {VideoError} when it lists no image, or one that is too large, too long or too fast
   */
  end(): VideoInfo {
    this.add("\n");
    const headers = this.#headers;
    const frames = this.#frames;
    const [width = 0, height = 0] = (headers.get("dimensions 0") ?? "").split("x").map(Number);
    if (!(width > 0 && height > 0 && frames > 0)) {
      throw new VideoError("Cannot read video: the file holds no image");
    }
    const [ticks = 0, perSecond = 0] = (headers.get("tb 0") ?? "").split("/").map(Number);
    const seconds = (this.#end - this.#begin) * ticks / perSecond;
    const fps = seconds > 0 ? frames / seconds : STILL_FPS;
    const audioCodec = headers.get("codec_id 1");
    checkLimits(width * height, seconds, fps, `${width}x${height}`);
    return { width, height, frames, fps, ...(audioCodec === undefined ? {} : { audioCodec }) };
  }

  #addLine(line: string): void {
    const header = /^#(\w+) (\d+): (.*)/.exec(line);
    if (header) {
      this.#headers.set(`${header[1]} ${header[2]}`, header[3]!);
      return;
    }
    const [track, , pts, duration] = line.split(",").map(Number);
    if (track !== 0 || pts === undefined || duration === undefined) return;
    this.#frames++;
    this.#begin = Math.min(this.#begin, pts);
    this.#end = Math.max(this.#end, pts + duration);
  }
}

function checkLimits(pixels: number, seconds: number, fps: number, size: string): void {
  if (pixels > MAX_VIDEO_PIXELS) {
    throw new VideoError(
      `Cannot read video: its frames are ${size}, and at most ${MAX_VIDEO_PIXELS} pixels are ` +
        "allowed; scale it down first",
    );
  }
  if (seconds > MAX_SECONDS) {
    throw new VideoError(
      `Cannot read video: it lasts ${Math.round(seconds)} s by its time stamps, and at most ` +
        `${MAX_SECONDS} s are allowed; cut it first`,
    );
  }
  if (fps > MAX_FPS) {
    throw new VideoError(
      `Cannot read video: it has ${
        Math.round(fps)
      } frames per second, and at most ${MAX_FPS} are ` +
        "allowed; lower its rate first",
    );
  }
}
