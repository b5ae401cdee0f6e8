/** Frames and sound to MP4 files. */

import { removeFile, temporaryPath, writeFile } from "../../platform/mod.ts";
import { encodeWav, fitWaveform, type Waveform } from "../waveform.ts";
import type { Ffmpeg } from "./ffmpeg.ts";
import { DEFAULT_X264_PRESET, type X264Preset } from "./quality.ts";
import { openUntrusted } from "./video_file.ts";

/** Formats of video files. */
export type VideoFormat = "mp4" | "webm";

export interface WriteVideoOptions {
  /** Absolute path of the file; it is replaced. */
  readonly path: string;
  /** `mp4` by default; WebM is for browsers without an encoder of H.264. */
  readonly format?: VideoFormat | undefined;
  readonly width: number;
  readonly height: number;
  readonly fps: number;
  /** Constant rate factor, 0 (lossless) to 51, as `crfOfQuality` gives it. */
  readonly crf: number;
  /** Effort of the encoder; `fast` by default. */
  readonly preset?: X264Preset | undefined;
  /** Whether the file can be played while it is written: in fragments of half a second, without an index. */
  readonly isFragmented?: boolean | undefined;
  /** How long the frames will last; what sound there is lasts as long. */
  readonly seconds?: number | undefined;
  /** A file whose first audio track is kept, and that track's codec. */
  readonly audio?: AudioFile | undefined;
  /** Absolute path where sound lies while the file is written; among the system's temporary files by default. */
  readonly soundPath?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A file with sound. */
export interface AudioFile {
  /** Absolute. */
  readonly path: string;
  /** Codec of its first audio track, by FFmpeg's name, such as `aac`. */
  readonly codec: string;
}

export interface VideoWriter {
  /** Gives the file a sound, before the first frame; it is cut, or silence follows, where it does not last `seconds`. */
  addAudio(audio: Waveform): Promise<void>;
  /** Adds a frame of `width * height * 3` bytes, RGB, row by row. */
  write(frame: Uint8Array): Promise<void>;
  finish(): Promise<void>;
}

/** What encoding beside a foreign file may take: our frames alone need half of it at 2048 x 2048. */
const AUDIO_LIMITS = { memoryBytes: 4e9 };

/** Puts the index in front when the file is complete. */
const INDEXED = ["-movflags", "+faststart"];

/** A fragment for every half second; the first says by how much sound begins before its frames. The encoder does not look ahead: it would hold dozens of slow frames. */
const FRAGMENTED = [
  ...["-tune", "zerolatency"],
  ...["-movflags", "+delay_moov+default_base_moof", "-frag_duration", "500000"],
  ...["-flush_packets", "1"],
];

/** Audio that goes into an MP4 as it is; any other is encoded again. */
const MP4_AUDIO = new Set(["aac", "mp3", "ac3", "opus"]);

/**
 * An MP4 file, begun with its first frame: H.264, 4:2:0, BT.709, index in front or in fragments. Odd sides grow by a pixel.
 * Sound is AAC, unless that of a file goes into an MP4 as it is.
 */
export function writeVideo(ffmpeg: Ffmpeg, options: WriteVideoOptions): VideoWriter {
  const { path, width, height, fps, crf, preset = DEFAULT_X264_PRESET, seconds, signal } = options;
  if ((options.format ?? "mp4") !== "mp4") {
    throw new RangeError(`only a browser tab writes ${options.format}; use mp4`);
  }
  const even = (side: number) => side + side % 2;
  let { audio } = options;
  let wav: string | undefined;
  let sink: ReturnType<Ffmpeg["encode"]> | undefined;
  const begin = () =>
    sink ??= ffmpeg.encode({
      inputs: audio ? [audio.path] : [],
      ...(audio ? { limits: AUDIO_LIMITS } : {}),
      signal,
      arguments: ({ inputs, stdin, output }) => [
        ...["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", `${width}x${height}`, "-r", String(fps)],
        ...["-i", stdin],
        // Not `-shortest`: that cuts the frames where the sound ends before them.
        ...(audio && seconds !== undefined ? ["-t", String(seconds)] : []),
        ...(audio ? openUntrusted(inputs[0]!, "audio") : []),
        ...["-map", "0:v:0"],
        ...(audio ? ["-map", "1:a:0", "-c:a", MP4_AUDIO.has(audio.codec) ? "copy" : "aac"] : []),
        "-vf",
        `scale=${even(width)}:${even(height)}:out_color_matrix=bt709:out_range=tv,format=yuv420p`,
        ...["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"],
        ...["-color_range", "tv"],
        ...["-c:v", "libx264", "-preset", preset, "-crf", String(crf)],
        ...(options.isFragmented ? FRAGMENTED : INDEXED),
        ...["-f", "mp4", output],
      ],
    }, path);
  const frameBytes = width * height * 3;
  return {
    async addAudio(waveform) {
      if (sink) throw new Error("Cannot add sound: frames went before; add it before them");
      wav = options.soundPath ?? temporaryPath(".wav");
      const fitted = seconds === undefined ? waveform : fitWaveform(waveform, seconds);
      // Others on this machine must not hear it.
      await writeFile(wav, encodeWav(fitted), 0o600);
      audio = { path: wav, codec: "pcm_s16le" };
    },
    async write(frame) {
      if (frame.length !== frameBytes) {
        throw new RangeError(
          `Cannot add a frame of ${frame.length} bytes: ${width}x${height} in RGB has ${frameBytes}`,
        );
      }
      await begin().write(frame);
    },
    async finish() {
      try {
        await begin().finish();
      } finally {
        if (wav) await removeFile(wav);
      }
    },
  };
}
