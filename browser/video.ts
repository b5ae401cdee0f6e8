/** Video files of a tab, which WebCodecs reads and writes in its table of files; stands in for `media/video/mod.ts`. */
import { fit } from "../media/fit.ts";
import type { ReadVideoOptions } from "../media/video/read.ts";
import type { VideoWriter, WriteVideoOptions } from "../media/video/write.ts";
import { checkVideoWork, VideoError } from "../media/video/video_work.ts";
import { fitWaveform, type Waveform } from "../media/waveform.ts";
import type { VideoFile } from "./video_file.ts";
import { bytesOf, find, mount, TEMPORARY } from "./files.ts";

export { checkVideoWork, VideoError };
export { crfOfQuality } from "../media/video/quality.ts";
export type {
  AudioFile,
  VideoFormat,
  VideoWriter,
  WriteVideoOptions,
} from "../media/video/write.ts";

export class FfmpegError extends Error {}

/** A tab follows no sound of a file yet. */
export class AudioError extends Error {
  override readonly name: string = "AudioError";
}

/** @throws {AudioError} always */
export function probeAudio(): Promise<never> {
  return Promise.reject(
    new AudioError(
      "Cannot read the sound: a tab reads no sounds; give it to `denoise generate --audio` or to a server",
    ),
  );
}

export const readAudio = probeAudio;

/** What encodes and decodes. */
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

/** @throws {VideoError} for a file that this browser does not read */
export async function probeVideo(_: Ffmpeg, path: string): Promise<VideoInfo> {
  const blob = await blobOf(path);
  return await asVideoError(async () => await (await reader()).probe(blob));
}

/** Decodes a video file into frames of one size. With `fps`, the file is sampled at that rate. */
export async function* readVideo(
  _: Ffmpeg,
  path: string,
  info: VideoInfo,
  options: ReadVideoOptions,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const { width, height, fps, maxFrames, isContained, signal } = options;
  checkVideoWork(info, options);
  const blob = await blobOf(path);
  const size = { width, height };
  const frames: Uint8Array<ArrayBuffer>[] = [];
  let end = 0;
  const hold = (until: number) => {
    while (frames.length > 0 && frames.length < Math.min(until, maxFrames)) {
      frames.push(frames.at(-1)!);
    }
  };
  await asVideoError(async () =>
    await (await reader()).read(blob, ({ data, time, duration, ...own }) => {
      const image = { ...own, data };
      const at = fps === undefined ? frames.length : Math.round(time * fps);
      hold(at);
      end = fps === undefined ? at + 1 : Math.round((time + duration) * fps);
      if (frames.length >= maxFrames) return false;
      const fitted = fit(image, isContained ? { contain: size } : { cover: size }).data;
      // Of several frames in one place the last is shown.
      frames[Math.min(at, frames.length)] = fitted as Uint8Array<ArrayBuffer>;
      return true;
    }, signal)
  );
  hold(end);
  if (frames.length === 0) {
    throw new VideoError("Cannot read video: no frame of it could be decoded");
  }
  yield* frames.slice(0, Math.min(maxFrames, Math.max(1, end)));
}

async function blobOf(path: string): Promise<Blob> {
  const file = find(path);
  if (!file) {
    throw new VideoError(
      `Cannot read video: a browser tab has no file ${path}; give frames, as videoFrames() reads them`,
    );
  }
  return file.kind === "blob" ? file.blob : new Blob([await bytesOf(file)]);
}

async function asVideoError<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    const { message } = error as Error;
    const text = /^Cannot /.test(message) ? message : `Cannot read video: ${message}`;
    throw new VideoError(text, { cause: error });
  }
}

async function reader(): Promise<typeof import("./video_reader.ts")> {
  const script: string = new URL("./video_reader.js", import.meta.url).href;
  return await import(script) as typeof import("./video_reader.ts");
}

/** Starts a file in the table. Encoder and container are a script of their own, which is fetched when it is wanted. */
export function writeVideo(_: Ffmpeg, { path, ...options }: WriteVideoOptions): VideoWriter {
  if (!path.startsWith(TEMPORARY)) {
    throw new VideoError("a browser tab has no file system; use toBlob()");
  }
  const { seconds } = options;
  let sound: Waveform | undefined;
  let opening: Promise<VideoFile> | undefined;
  const open = async () => {
    const script: string = new URL("./video_file.js", import.meta.url).href;
    const { openVideoFile } = await import(script) as typeof import("./video_file.ts");
    return await openVideoFile({ ...options, sound });
  };
  return {
    addAudio: (audio) => {
      sound = seconds === undefined ? audio : fitWaveform(audio, seconds);
      return Promise.resolve();
    },
    write: async (frame) => await (await (opening ??= open())).write(frame),
    finish: async () => {
      mount(path, { kind: "blob", blob: await (await (opening ??= open())).finish() });
    },
  };
}
