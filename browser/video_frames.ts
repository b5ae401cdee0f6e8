/** Frames of video files, for requests. */
import type { Image } from "../engine/types.ts";
import { probeVideo, readVideo } from "./video.ts";
import { mount, TEMPORARY, unmount } from "./files.ts";

/** How frames of a video file are taken. */
export interface VideoFramesOptions {
  /** Frames per second of the result: frames are repeated or skipped. The file's own by default. */
  readonly fps?: number;
  /** No more frames than this come out; all by default. */
  readonly maxFrames?: number;
  /** Stops reading with an `AbortError`. */
  readonly signal?: AbortSignal;
}

/**
 * Reads a video file by the browser's WebCodecs: MP4, MOV, WebM or MKV, in what codecs this browser decodes.
 *
 * @param file as a picker or `fetch()` gives it
 * @param options rate and number of frames
 * @returns frames of the size of the file, for `generateVideo({ video })`
 * @throws {Error} for a file that is no video, or that this browser does not decode
 */
export async function videoFrames(
  file: Blob,
  { fps, maxFrames, signal }: VideoFramesOptions = {},
): Promise<Image[]> {
  const path = `${TEMPORARY}${crypto.randomUUID()}`;
  mount(path, { kind: "blob", blob: file });
  try {
    const info = await probeVideo("WebCodecs", path);
    const { width, height, frames } = info;
    const all = fps === undefined ? frames : Math.ceil(frames / info.fps * fps) + 1;
    const shape = { width, height, fps, maxFrames: maxFrames ?? all, signal };
    const read = await Array.fromAsync(readVideo("WebCodecs", path, info, shape));
    return read.map((data) => ({ width, height, data }));
  } finally {
    unmount(path);
  }
}
