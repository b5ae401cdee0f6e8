/** Video files of a tab: WebCodecs writes them into its table of files, and none are read; stands in for `media/video/mod.ts`. */
import type { VideoWriter, WriteVideoOptions } from "../media/video/write.ts";
import { mount, TEMPORARY } from "./files.ts";

export { crfOfQuality } from "../media/video/quality.ts";
export type { VideoFormat, VideoWriter, WriteVideoOptions } from "../media/video/write.ts";

export class VideoError extends Error {
  override readonly name = "VideoError";
}

export class FfmpegError extends Error {}

/** What encodes. */
export type Ffmpeg = "WebCodecs";
export type X264Preset = "fast";

export interface VideoInfo {
  readonly width: number;
  readonly height: number;
  readonly frames: number;
  readonly fps: number;
}

/** Browsers choose how hard they try. */
export const X264_PRESETS: readonly X264Preset[] = ["fast"];
export const DEFAULT_X264_PRESET: X264Preset = "fast";

export function findFfmpeg(): Promise<Ffmpeg> {
  return Promise.resolve("WebCodecs");
}

export function probeVideo(): Promise<never> {
  return Promise.reject(
    new VideoError("Cannot read video: a browser tab reads no video files; give frames"),
  );
}

export const readVideo = probeVideo;

/** Starts a file in the table. Encoder and container are a script of their own, which is fetched when it is wanted. */
export function writeVideo(_: Ffmpeg, { path, ...options }: WriteVideoOptions): VideoWriter {
  if (!path.startsWith(TEMPORARY)) {
    throw new VideoError("a browser tab has no file system; use toBlob()");
  }
  const opening = (async () => {
    const script: string = new URL("./video_file.js", import.meta.url).href;
    const { openVideoFile } = await import(script) as typeof import("./video_file.ts");
    return await openVideoFile(options);
  })();
  opening.catch(() => {});
  return {
    write: async (frame) => await (await opening).write(frame),
    finish: async () => mount(path, { kind: "blob", blob: await (await opening).finish() }),
  };
}

export function checkVideoWork(): void {}
