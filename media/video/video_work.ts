/** The limit of what is decoded of a video, under Deno and in a tab. */

import type { VideoInfo } from "./probe.ts";
import type { ReadVideoOptions } from "./read.ts";

/** Thrown when foreign bytes cannot be used as a video; a server answers it with a client error. */
export class VideoError extends Error {
  override readonly name = "VideoError";
}

/** Most pixels of all frames together that are decoded: 8 s of 4096 x 4096 at 60 frames per second. */
const MAX_WORK = 2 ** 33;

/** Checks that what is wanted of a video can be decoded in reasonable time. */
export function checkVideoWork(
  info: Pick<VideoInfo, "width" | "height" | "frames" | "fps">,
  { fps, maxFrames }: Pick<ReadVideoOptions, "fps" | "maxFrames">,
): void {
  const stored = fps === undefined ? maxFrames : Math.ceil(maxFrames / fps * info.fps);
  const frames = Math.min(info.frames, stored);
  if (frames * info.width * info.height <= MAX_WORK) return;
  throw new VideoError(
    `Cannot read video: ${frames} frames of ${info.width}x${info.height} would have to be decoded, ` +
      `and at most ${
        Math.floor(MAX_WORK / (info.width * info.height))
      } of that size are; scale it ` +
      "down or cut it first",
  );
}
