/** Video files of a tab: none, as there is no FFmpeg; stands in for `media/video/mod.ts`. Frames go in and out as pixels. */

export class VideoError extends Error {
  override readonly name = "VideoError";
}

export class FfmpegError extends Error {}

export type Ffmpeg = never;
export type X264Preset = "fast";

export interface VideoInfo {
  readonly width: number;
  readonly height: number;
  readonly frames: number;
  readonly fps: number;
}

export const X264_PRESETS: readonly X264Preset[] = ["fast"];
export const DEFAULT_X264_PRESET: X264Preset = "fast";

export function crfOfQuality(): number {
  return 0;
}

export function findFfmpeg(): Promise<never> {
  return Promise.reject(
    new VideoError("Cannot use a video file: a browser tab has no FFmpeg; give and take frames"),
  );
}

export const probeVideo = findFfmpeg;
export const readVideo = findFfmpeg;

export function writeVideo(): never {
  throw new VideoError("Cannot write a video file: a browser tab has no FFmpeg; take its frames");
}

export function checkVideoWork(): void {}
