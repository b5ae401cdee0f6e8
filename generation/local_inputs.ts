/** Images and videos that programs and users of this machine give; requests over HTTP may name no path of it. */

import { fileInfo, readFile, resolve } from "../platform/mod.ts";
import type { Image, InputImage } from "../engine/types.ts";
import { decodeImage, type ImageInfo, inspectImage } from "../media/decode.ts";
import { readImageText } from "../media/encode.ts";
import { fitWithAlpha } from "../media/fit.ts";
import { checkImage, ImageError, type PixelImage, type RgbaImage, toRgb } from "../media/image.ts";
import { hasHoles } from "../media/mask.ts";
import {
  AudioError,
  type AudioInfo,
  findFfmpeg,
  probeAudio,
  probeVideo,
  readAudio,
  VideoError,
  type VideoInfo,
} from "../media/video/mod.ts";
import type { Waveform } from "../media/waveform.ts";
import type { AudioFormat } from "../models/pipeline/types.ts";
import { fitMask, givenImage } from "./size.ts";
import type { VideoInputTypes, VideoReader } from "./prepare_video.ts";
import { type FileRecipe, readRecipe } from "./read_recipe.ts";
import { fitFrames, readFrames, type VideoShape } from "./video_frames.ts";

/** An image: the path of a file, the bytes of one, or pixels, with alpha where they have four channels. */
export type ImageSource = string | Uint8Array | Image | RgbaImage;

/** A video: the path of a file, or frames. */
export type VideoSource = string | readonly Image[];

export interface LocalVideo {
  readonly info: VideoInfo;
  /** The file, where it is one; absolute. */
  readonly path?: string;
  /** Gives frames of a shape and, from a file, of a rate. */
  read(shape: VideoShape & { readonly fps: number }): Promise<Image[]>;
}

export interface LocalSound {
  readonly info: AudioInfo;
  /** Absolute. */
  readonly path: string;
  /** Gives as much of it as is asked for, in some form. */
  read(shape: AudioFormat & { readonly seconds: number }): Promise<Waveform>;
}

export interface LocalInputs extends VideoInputTypes {
  readonly source: ImageSource;
  readonly open: PixelImage;
  readonly kept: InputImage;
  readonly clipSource: VideoSource;
  readonly clip: LocalVideo;
  readonly sound: LocalSound;
}

/** Reads inputs in this process; `signal` stops reading videos. */
export function localReader(signal?: AbortSignal): VideoReader<LocalInputs> {
  const openClip = (source: VideoSource, fps: number) => openVideo(source, fps, signal);
  return {
    open: readPixels,
    fit: (image, how) =>
      Promise.resolve({
        image: givenImage(fitWithAlpha(image, how)),
        hasHoles: hasHoles(image),
      }),
    mask: (image, how, way) => Promise.try(() => fitMask(image, how, way)),
    openClip,
    openSound: (source) => openSound(source, signal),
    openMask: openClip,
    // Reading looks at that itself.
    checkClip: () => {},
  };
}

/** Longest file that is read into memory, as long as an upload may be. */
const MAX_FILE_BYTES = 256 * 2 ** 20;

/** How messages begin that do not know the file's name. */
const UNNAMED = /^Cannot read (?:image|the image's text|PNG|JPEG|WebP|GIF|BMP):/;

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file; check its path",
  ENOTDIR: "a part of its path is a file; check its path",
  EISDIR: "it is a folder; name a file in it",
  EACCES: "this user may not read it",
  EPERM: "this user may not read it",
};

/** Reads an image without its transparency; throws what {@link readPixels} throws. */
export async function readImageSource(source: ImageSource): Promise<Image> {
  const { width, height, data } = toRgb(await readPixels(source));
  return { width, height, data };
}

/**
 * Reads an image.
 *
 * @param source a file as PNG, JPEG, WebP, GIF or BMP, or pixels
 * @returns its pixels, with alpha where it has some
 * @throws {ImageError} when it is no image, damaged or too large; the message names the file
 * @throws {RangeError} for pixels whose number is not that of the size
 * @throws {Error} when the file cannot be read
 */
export async function readPixels(source: ImageSource): Promise<PixelImage> {
  if (typeof source !== "string" && !(source instanceof Uint8Array)) {
    checkImage(source);
    return source;
  }
  return typeof source === "string"
    ? await named(source, async () => await decodeImage(await readWhole(source)))
    : await decodeImage(source);
}

/** What an image's file says of itself. */
export interface ImageFileInfo extends ImageInfo {
  /** How it was made, where it says that. */
  readonly recipe?: FileRecipe;
}

/** Reads format, size and recipe of a file, without decoding it. @throws {ImageError} whose message names the file */
export function inspectImageFile(path: string): Promise<ImageFileInfo> {
  return named(path, async () => {
    const bytes = await readWhole(path);
    const info = inspectImage(bytes, { maxPixels: Infinity });
    const recipe = readRecipe(readImageText(bytes));
    return { ...info, ...(recipe && { recipe }) };
  });
}

/** Names the file in what is wrong with it. */
async function named<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    const message = error.message.replace(UNNAMED, () => `Cannot read ${path}:`);
    throw new ImageError(message, { cause: error });
  }
}

/** Looks at a video, without decoding it; `signal` stops that and reading. @throws {VideoError} whose message names the file */
export async function openVideo(
  source: VideoSource,
  fps = 1,
  signal?: AbortSignal,
): Promise<LocalVideo> {
  if (typeof source !== "string") {
    const [first] = source;
    if (!first) throw new RangeError("Cannot read video: it has no frames");
    source.forEach(checkImage);
    const { width, height } = first;
    return {
      info: { width, height, frames: source.length, fps },
      read: (shape) => Promise.resolve(fitFrames(source, shape)),
    };
  }
  const ffmpeg = await findFfmpeg();
  await fileSize(source);
  const path = resolve(source);
  try {
    const info = await probeVideo(ffmpeg, path, signal ? { signal } : {});
    const read: LocalVideo["read"] = (shape) =>
      readFrames(ffmpeg, { path, info }, { ...shape, signal });
    return { info, path, read };
  } catch (error) {
    if (!(error instanceof VideoError)) throw error;
    throw new VideoError(error.message.replace("read video", `read ${source}`), { cause: error });
  }
}

/** Looks at a file with sound, without decoding it. @throws {AudioError} whose message names the file */
export async function openSound(source: VideoSource, signal?: AbortSignal): Promise<LocalSound> {
  if (typeof source !== "string") {
    throw new RangeError("Cannot follow a sound in memory: name a file with sound");
  }
  const ffmpeg = await findFfmpeg();
  await fileSize(source);
  const path = resolve(source);
  try {
    const info = await probeAudio(ffmpeg, path, signal ? { signal } : {});
    return { info, path, read: (shape) => readAudio(ffmpeg, path, { ...shape, signal }) };
  } catch (error) {
    if (!(error instanceof AudioError)) throw error;
    throw new AudioError(error.message.replace("read the sound", `read ${source}`), {
      cause: error,
    });
  }
}

async function readWhole(path: string): Promise<Uint8Array> {
  const size = await fileSize(path);
  if (size > MAX_FILE_BYTES) {
    throw new ImageError(
      `Cannot read image: it has ${size} bytes, and at most ${MAX_FILE_BYTES} are allowed; send a smaller one`,
    );
  }
  return await readFile(path).catch((cause) => refuse(path, cause));
}

async function fileSize(path: string): Promise<number> {
  const file = await fileInfo(path).catch((cause) => refuse(path, cause));
  return file.isDirectory ? refuse(path, { code: "EISDIR" }) : file.size;
}

function refuse(path: string, cause: { code?: string; message?: string }): never {
  const reason = REASONS[cause.code ?? ""] ?? cause.message;
  throw new Error(`Cannot read ${path}: ${reason}`, { cause });
}
