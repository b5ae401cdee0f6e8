/** Frames to MP4 files. */

import type { Ffmpeg } from "./ffmpeg.ts";
import { openUntrusted } from "./video_file.ts";

export interface WriteVideoOptions {
  /** Absolute path of the file; it is replaced. */
  readonly path: string;
  readonly width: number;
  readonly height: number;
  readonly fps: number;
  /** Constant rate factor, 0 (lossless) to 51, as `crfOfQuality` gives it. */
  readonly crf: number;
  /** Effort of the encoder; `fast` by default. */
  readonly preset?: X264Preset | undefined;
  /** Whether the file can be played while it is written: in fragments of half a second, without an index. */
  readonly isFragmented?: boolean | undefined;
  /** A file whose first audio track is kept, that track's codec, and the seconds that the frames will last. */
  readonly audio?: {
    readonly path: string;
    readonly codec: string;
    readonly seconds: number;
  } | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface VideoWriter {
  /** Adds a frame of `width * height * 3` bytes, RGB, row by row. */
  write(frame: Uint8Array): Promise<void>;
  finish(): Promise<void>;
}

/** What encoding beside a foreign file may take: our frames alone need half of it at 2048 x 2048. */
const AUDIO_LIMITS = { memoryBytes: 4e9 };

/** Puts the index in front when the file is complete. */
const INDEXED = ["-movflags", "+faststart"];

/** A fragment for every half second. The encoder does not look ahead: it would hold dozens of slow frames. */
const FRAGMENTED = [
  ...["-tune", "zerolatency"],
  ...["-movflags", "+empty_moov+default_base_moof", "-frag_duration", "500000"],
  ...["-flush_packets", "1"],
];

/** Audio that goes into an MP4 as it is; any other is encoded again. */
const MP4_AUDIO = new Set(["aac", "mp3", "ac3", "opus"]);

/** Starts an MP4 file: H.264, 4:2:0, BT.709, index in front or in fragments. Odd sides grow by a pixel. */
export function writeVideo(ffmpeg: Ffmpeg, options: WriteVideoOptions): VideoWriter {
  const { path, width, height, fps, crf, preset = DEFAULT_X264_PRESET, audio, signal } = options;
  const even = (side: number) => side + side % 2;
  const sink = ffmpeg.encode({
    inputs: audio ? [audio.path] : [],
    ...(audio ? { limits: AUDIO_LIMITS } : {}),
    signal,
    arguments: ({ inputs, stdin, output }) => [
      ...["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", `${width}x${height}`, "-r", String(fps)],
      ...["-i", stdin],
      // Not `-shortest`: that cuts the frames where the sound ends before them.
      ...(audio ? ["-t", String(audio.seconds), ...openUntrusted(inputs[0]!, "audio")] : []),
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
    async write(frame) {
      if (frame.length !== frameBytes) {
        throw new RangeError(
          `Cannot add a frame of ${frame.length} bytes: ${width}x${height} in RGB has ${frameBytes}`,
        );
      }
      await sink.write(frame);
    },
    finish: () => sink.finish(),
  };
}

/** Presets of x264, from the fastest to the one that keeps most in a file of the same size. */
export const X264_PRESETS = [
  "ultrafast",
  "superfast",
  "veryfast",
  "faster",
  "fast",
  "medium",
  "slow",
  "slower",
  "veryslow",
  "placebo",
] as const;

/** An effort of the encoder, one of {@link X264_PRESETS}. */
export type X264Preset = typeof X264_PRESETS[number];

/** The preset of a request that names none. */
export const DEFAULT_X264_PRESET: X264Preset = "fast";

/** The coarsest constant rate factor of x264 at 8 bits. */
const WORST_CRF = 51;

/** The constant rate factor, 51 to 0, for a quality of 0 (smallest file) to 100 (lossless), on a straight line. */
export function crfOfQuality(quality: number): number {
  // Tenths first: 1 - 90/100 is a hair above 0.1 in binary, and 5.1 must not become 6.
  return Math.floor((WORST_CRF * (100 - quality)) / 100);
}
