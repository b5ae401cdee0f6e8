/** A finished video in memory, and as a file. */

import {
  dirname,
  exists,
  makeFolder,
  readFile,
  removeFile,
  resolve,
  temporaryPath,
  writeFile,
} from "../platform/mod.ts";
import type { Size, Waveform } from "../engine/types.ts";
import { resolveQuality } from "../media/encode.ts";
import { encodeWav } from "../media/waveform.ts";
import {
  type AudioFile,
  crfOfQuality,
  DEFAULT_X264_PRESET,
  findFfmpeg,
  type VideoFormat,
  type VideoWriter,
  writeVideo,
  X264_PRESETS,
  type X264Preset,
} from "../media/video/mod.ts";
import { checkFlag } from "./field_values.ts";
import { GeneratedImage } from "./generated_image.ts";
import type { Recipe } from "./recipe.ts";
import { describeWriteError } from "./write_error.ts";

/** How a video's file is made. */
export interface SaveVideoOptions {
  /** 0 (small) to 100 (lossless); default 50. */
  quality?: number;
  /** Effort of the H.264 encoder, from `ultrafast` to `placebo`; default `fast`. */
  preset?: X264Preset;
  /** Whether the file can be played while it is written; it then has no index, and players may not tell its length. */
  isFragmented?: boolean;
  /** Stops it; `save` then throws an `AbortError`. */
  signal?: AbortSignal;
}

/** How a video's file in memory is made. */
export interface VideoBlobOptions extends Omit<SaveVideoOptions, "isFragmented"> {
  /** `mp4`, which is H.264, by default; `webm`, which is VP9, in a browser tab alone. */
  format?: VideoFormat;
}

/** What a video is put together from. */
export interface GeneratedVideoParts {
  /** How the video was made, with its size. */
  recipe: Recipe;
  /** RGB, `width * height * 3` bytes each; at least one. */
  frames: readonly Uint8Array[];
  /** Frames per second. */
  fps: number;
  /** Its sound; or a file whose first audio track the video's file gets, and that track's codec. */
  audio?: Waveform | AudioFile;
}

/** A video, with all that is needed to make it again. */
export class GeneratedVideo {
  /** Pixels per row. */
  readonly width: number;
  /** Number of rows. */
  readonly height: number;
  /** `width * height * 3` bytes each: R, G, B for each pixel, row by row from the top. */
  readonly frames: readonly Uint8Array[];
  /** Frames per second. */
  readonly fps: number;
  /** How the video was made. */
  readonly recipe: Recipe;
  /** Its sound, where the model made one. */
  readonly audio?: Waveform;
  readonly #audioFile: AudioFile | undefined;

  /**
   * Puts a video together.
   *
   * @param parts its recipe, frames and rate
   */
  constructor({ recipe, frames, fps, audio }: GeneratedVideoParts) {
    this.width = recipe.width;
    this.height = recipe.height;
    this.recipe = recipe;
    this.frames = frames;
    this.fps = fps;
    if (audio && "channels" in audio) this.audio = audio;
    else this.#audioFile = audio;
  }

  /**
   * One frame as an image.
   *
   * @param index counted from 0
   * @returns the image
   * @throws {RangeError} when there is no such frame
   */
  frame(index: number): GeneratedImage {
    const data = this.frames[index];
    if (data === undefined) {
      throw new RangeError(
        `Cannot show frame ${index}: the video has frames 0 to ${this.frames.length - 1}`,
      );
    }
    return new GeneratedImage(this.recipe, data);
  }

  /**
   * Writes the video to an H.264 MP4 file; folders on the way are made. The file has the sound that the model made, or the
   * sound of the input video. The system's FFmpeg writes it, or the slower bundled one where the system has none.
   *
   * @param path ends with `.mp4`; or with `.wav` for the sound that the model made, alone
   * @param options quality and effort
   * @throws {RangeError} for another ending, sound that the model did not make, a quality outside 0 to 100, or an unknown preset
   * @throws {Error} when the file cannot be written
   */
  async save(path: string, options: SaveVideoOptions = {}): Promise<void> {
    checkVideoPath(path);
    if (!isSoundPath(path)) return await this.#write(path, options);
    if (!this.audio) {
      throw new RangeError(
        `Cannot write ${path}: the model made no sound; name it with .mp4 at the end`,
      );
    }
    await saveSound(path, this.audio);
  }

  /**
   * The video as a file in memory, such as `URL.createObjectURL()` takes. A browser tab encodes it by WebCodecs, where
   * `quality` sets the bit rate and nothing is lossless.
   *
   * @param options format and quality
   * @returns the file, with its type
   * @throws {RangeError} for a quality outside 0 to 100, or an unknown preset
   * @throws {Error} when it cannot be encoded, as in a browser that encodes no H.264
   */
  async toBlob({ format = "mp4", ...options }: VideoBlobOptions = {}): Promise<Blob> {
    const path = temporaryPath(`.${format}`);
    try {
      await this.#write(path, options, { format, what: "the video" });
      return new Blob([await readFile(path)], { type: `video/${format}` });
    } finally {
      await removeFile(path);
    }
  }

  async #write(path: string, options: SaveVideoOptions, how: HowToSave = {}): Promise<void> {
    const { width, height, fps } = this;
    const seconds = this.frames.length / fps;
    const stream = { width, height, fps, seconds, audio: this.#audioFile };
    await saveFrames(path, stream, { ...options, ...how }, async (file) => {
      if (this.audio) await file.addAudio(this.audio);
      for (const frame of this.frames) await file.write(frame);
    });
  }
}

/** What is known of a video before its frames are. */
export interface VideoStream extends Size {
  /** Frames per second. */
  readonly fps: number;
  /** How long it lasts. */
  readonly seconds: number;
  /** A file whose first audio track the video's file gets, and that track's codec. */
  readonly audio?: AudioFile | undefined;
}

interface HowToSave {
  readonly format?: VideoFormat;
  /** What errors call it; its path by default. */
  readonly what?: string;
}

/** Writes frames and sound to a file as `give` hands them to it. What was written goes when it fails. */
export async function saveFrames(
  path: string,
  stream: VideoStream,
  options: SaveVideoOptions & HowToSave,
  give: (file: Pick<VideoWriter, "addAudio" | "write">) => Promise<void>,
): Promise<void> {
  const { preset = DEFAULT_X264_PRESET, isFragmented, format, what = path, signal } = options;
  if (!X264_PRESETS.includes(preset)) {
    throw new RangeError(`Cannot encode with preset ${preset}: use ${X264_PRESETS.join(", ")}`);
  }
  if (isFragmented !== undefined) checkFlag(isFragmented, "isFragmented");
  const crf = crfOfQuality(resolveQuality(undefined, options.quality, "video"));
  const isNew = !await exists(path);
  // The encoder waits for more frames where there will be none.
  const stop = new AbortController();
  const own = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  let failure: { readonly error: unknown } | undefined;
  try {
    await makeFolder(dirname(path));
    const ffmpeg = await findFfmpeg();
    const file = writeVideo(ffmpeg, {
      ...stream,
      path: resolve(path),
      format,
      crf,
      preset,
      isFragmented,
      signal: own,
    });
    await give(file).catch((error) => {
      failure = { error };
      stop.abort();
    });
    await file.finish();
  } catch (cause) {
    // Half a video is none.
    if (isNew) await removeFile(path);
    if (failure) throw failure.error;
    if (signal?.aborted) throw cause;
    throw new Error(`Cannot write ${what}: ${describeWriteError(cause)}`, { cause });
  }
}

/** @throws {RangeError} unless it ends with `.mp4`, or `.wav` for sound alone */
export function checkVideoPath(path: string): void {
  if (/\.mp4$/i.test(path) || isSoundPath(path)) return;
  throw new RangeError(
    `Cannot write ${path}: name it with .mp4 at the end, or with .wav for sound alone`,
  );
}

export function isSoundPath(path: string): boolean {
  return /\.wav$/i.test(path);
}

/** Writes sound to a WAV file; folders on the way are made. */
export async function saveSound(path: string, audio: Waveform): Promise<void> {
  try {
    await writeFile(path, encodeWav(audio));
  } catch (cause) {
    throw new Error(`Cannot write ${path}: ${describeWriteError(cause)}`, { cause });
  }
}
