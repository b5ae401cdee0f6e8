/**
 * What FFmpeg is allowed to do with files that came from outside, and how their faults are named.
 *
 * @module
 */

import { FfmpegError } from "./ffmpeg.ts";

/**
 * Thrown when bytes that came from outside cannot be used as a video: unknown format, damaged, or
 * larger than allowed. A server answers it with a client error.
 */
export class VideoError extends Error {
  /** Tells it from other errors in logs. */
  override readonly name = "VideoError";
}

/**
 * Containers that are read. None of them can name other files or addresses, as playlists do: an
 * upload must not make the server open what its sender cannot.
 */
const CONTAINERS = ["mov", "matroska", "avi", "gif", "mpeg", "mpegts", "flv", "ogg", "asf"];

/**
 * Arguments that open an untrusted file.
 *
 * @param input as the call names it
 * @returns options and `-i`
 */
export function openUntrusted(input: string): string[] {
  return ["-protocol_whitelist", "file,pipe", "-format_whitelist", CONTAINERS.join(), "-i", input];
}

/**
 * Turns a failure of FFmpeg into one of the file that it read.
 *
 * @param error what a call threw
 * @returns what to throw instead
 */
export function videoError(error: unknown): unknown {
  if (!(error instanceof FfmpegError)) return error;
  return new VideoError(
    `Cannot read video: it is damaged or of no known format; send MP4, MOV, WebM, MKV, AVI or GIF (${error.message})`,
    { cause: error },
  );
}
