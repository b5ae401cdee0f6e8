/** Video files to frames. */

import { converterOf, namedSpace } from "../color/color_space.ts";
import { onWhite } from "../image.ts";
import type { Ffmpeg } from "./ffmpeg.ts";
import type { VideoInfo } from "./probe.ts";
import { openUntrusted, READ_LIMITS, videoError } from "./video_file.ts";
import { checkVideoWork, VideoError } from "./video_work.ts";

export interface ReadVideoOptions {
  readonly width: number;
  readonly height: number;
  /** Frames per second of the result: frames are repeated or skipped. The file's own by default. */
  readonly fps?: number | undefined;
  /** No more frames than this come out. */
  readonly maxFrames: number;
  /** Whether all of the image is shown, in the middle of a black frame. */
  readonly isContained?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Decodes a video. The image covers the frame: what is too much at the longer side is cut off evenly, unless all of it
 * is to be shown. Nothing is stretched: pixels that are no squares become squares. Colours of other primaries become
 * those of BT.709, and what is transparent lies on white.
 *
 * @param info the file as `probeVideo` found it
 * @returns frames of `width * height * 3` bytes, RGB, row by row, in order
 */
export async function* readVideo(
  ffmpeg: Ffmpeg,
  path: string,
  info: VideoInfo,
  options: ReadVideoOptions,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const { width, height, fps, maxFrames, isContained, signal } = options;
  const { colors, hasAlpha, decoder } = info;
  const pixels = hasAlpha ? "rgba" : "rgb24";
  checkVideoWork(info, options);
  const filters = [
    ...(fps === undefined ? [] : atRate(fps, maxFrames)),
    `trim=end_frame=${maxFrames}`,
    ...(info.pixelAspect === undefined ? [] : ["scale=iw*sar:ih:flags=bicubic", "setsar=1"]),
    ...(isContained
      ? [
        `scale=${width}:${height}:force_original_aspect_ratio=decrease:flags=bicubic`,
        // In RGB, chroma does not shift where the bars begin.
        ...[`format=${pixels}`, `pad=${width}:${height}:(ow-iw)/2:(oh-ih)/2:black`],
      ]
      : [
        `scale=${width}:${height}:force_original_aspect_ratio=increase:flags=bicubic`,
        `crop=${width}:${height}`,
      ]),
  ];
  const stream = ffmpeg.decode({
    inputs: [path],
    signal,
    limits: READ_LIMITS,
    arguments: ({ inputs, output }) => [
      ...(decoder === undefined ? [] : ["-c:v", decoder]),
      ...openUntrusted(inputs[0]!, "all"),
      ...["-map", "0:v:0", "-vf", filters.join(), "-filter_threads", "1"],
      // Without a rate of their own, frames come out as they are stored: none repeated, none lost.
      ...(fps === undefined ? ["-vsync", "passthrough"] : []),
      ...["-f", "rawvideo", "-pix_fmt", pixels, output],
    ],
  });
  const space = colors && namedSpace(colors.primaries, colors.transfer);
  const convert = space && converterOf(space);
  const frame = new Uint8Array(width * height * (hasAlpha ? 4 : 3));
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
        convert?.(frame, hasAlpha ? 4 : 3);
        yield hasAlpha ? onWhite(frame) : frame.slice();
      }
    }
  } catch (error) {
    throw videoError(error);
  }
  if (count === 0) throw new VideoError("Cannot read video: no frame of it could be decoded");
}

/**
 * Filters that repeat frames or omit them. `fps` fills a gap between time stamps with copies, of whatever length it is
 * and before anything behind it can say that this is enough. So no time stamp may lie much beyond the last frame that
 * is wanted, nor may the end, which `tpad` puts where the last frame is. Containers of few frames may count in seconds
 * or longer, which is too coarse for that.
 */
function atRate(fps: number, maxFrames: number): string[] {
  const seconds = (maxFrames + 2) / fps;
  return [
    "settb=if(lt(intb\\,1)\\,intb\\,1/1000)",
    `setpts=min(PTS\\,STARTPTS+ceil(${seconds}/TB))`,
    "tpad",
    `fps=${fps}`,
  ];
}
