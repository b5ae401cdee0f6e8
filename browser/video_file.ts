/** Frames to MP4 and WebM by WebCodecs: a bundle of its own, which a tab loads with its first video. */
import {
  AudioSample,
  AudioSampleSource,
  BufferTarget,
  canEncodeVideo,
  getFirstEncodableAudioCodec,
  Mp4OutputFormat,
  Output,
  type OutputFormat,
  type VideoCodec,
  VideoSample,
  VideoSampleSource,
  WebMOutputFormat,
} from "mediabunny";
import type { Waveform } from "../media/waveform.ts";
import type { VideoFormat, WriteVideoOptions } from "../media/video/write.ts";

export interface VideoFile {
  /** Adds a frame of RGB, row by row. */
  write(frame: Uint8Array): Promise<void>;
  finish(): Promise<Blob>;
}

const CODECS: Readonly<Record<VideoFormat, readonly [VideoCodec, string]>> = {
  mp4: ["avc", "H.264"],
  webm: ["vp9", "VP9"],
};
const OTHER: Readonly<Record<VideoFormat, VideoFormat>> = { mp4: "webm", webm: "mp4" };

/** Bits per pixel at x264's factor 25, where quality is 50; six less of it are twice the bits. */
const BITS_PER_PIXEL = 0.2;

/** Bits per second of sound. */
const AUDIO_BITRATE = 128_000;

/** Seconds from one frame that stands alone to the next. */
const KEY_FRAME_SECONDS = 2;

const BT709 = { primaries: "bt709", transfer: "bt709", matrix: "bt709", fullRange: false } as const;

/** RGB to planes of brightness and, of two by two pixels, colour; browsers that do it differ in their matrices. */
function toYuv(rgb: Uint8Array, width: number, height: number, planes: Uint8Array): void {
  const [red, green, blue] = [0.2126, 0.7152, 0.0722];
  const lumaOf = (at: number) => red * rgb[at]! + green * rgb[at + 1]! + blue * rgb[at + 2]!;
  const pixels = width * height;
  for (let i = 0; i < pixels; i++) planes[i] = 16.5 + 219 / 255 * lumaOf(3 * i);
  const [toBlue, toRed] = [1 - blue, 1 - red].map((most) => 112 / 255 / most) as [number, number];
  for (let y = 0, to = pixels; y < height; y += 2) {
    for (let x = 0; x < width; x += 2, to++) {
      let [luma, r, b] = [0, 0, 0];
      for (const at of [0, 1, width, width + 1].map((next) => 3 * (y * width + x + next))) {
        luma += lumaOf(at) / 4;
        r += rgb[at]! / 4;
        b += rgb[at + 2]! / 4;
      }
      planes[to] = 128.5 + toBlue * (b - luma);
      planes[to + pixels / 4] = 128.5 + toRed * (r - luma);
    }
  }
}

async function audioSource(
  { sampleRate, channels: { length: numberOfChannels } }: Waveform,
  format: OutputFormat,
): Promise<AudioSampleSource> {
  const bitrate = AUDIO_BITRATE;
  const options = { numberOfChannels, sampleRate, bitrate };
  const codec = await getFirstEncodableAudioCodec(format.getSupportedAudioCodecs(), options);
  if (codec) return new AudioSampleSource({ codec, bitrate });
  throw new Error(
    "Cannot encode the sound: this browser encodes none that the file may have; set enableAudio to false",
  );
}

function toSample({ sampleRate, channels }: Waveform): AudioSample {
  const [{ length } = new Float32Array()] = channels;
  const data = new Float32Array(channels.length * length);
  channels.forEach((samples, i) => data.set(samples, i * length));
  const numberOfChannels = channels.length;
  return new AudioSample({
    data,
    format: "f32-planar",
    numberOfChannels,
    sampleRate,
    timestamp: 0,
  });
}

/** @throws {Error} where this browser has no encoder for the format */
export async function openVideoFile(
  { width, height, fps, crf, format = "mp4", sound, signal }:
    & Omit<WriteVideoOptions, "path" | "audio">
    & { readonly sound?: Waveform | undefined },
): Promise<VideoFile> {
  const [codec, name] = CODECS[format];
  const bitrate = Math.ceil(width * height * fps * BITS_PER_PIXEL * 2 ** ((25 - crf) / 6));
  const isThere = "VideoEncoder" in globalThis &&
    await canEncodeVideo(codec, { width, height, bitrate });
  if (!isThere) {
    throw new Error(
      `Cannot encode the video: this browser does not encode ${name} of ${width}x${height}; ask for the format ${
        OTHER[format]
      }, or take the frames`,
    );
  }
  const output = new Output({
    format: format === "mp4"
      ? new Mp4OutputFormat({ fastStart: "in-memory" })
      : new WebMOutputFormat(),
    target: new BufferTarget(),
  });
  const source = new VideoSampleSource({ codec, bitrate, keyFrameInterval: KEY_FRAME_SECONDS });
  output.addVideoTrack(source, { frameRate: fps });
  const track = sound && await audioSource(sound, output.format);
  if (track) output.addAudioTrack(track);
  await output.start();
  if (track) {
    const sample = toSample(sound);
    await track.add(sample);
    sample.close();
    track.close();
  }
  const pixels = new Uint8Array(width * height * 3 / 2);
  let count = 0;
  return {
    async write(frame) {
      if (signal?.aborted) await output.cancel();
      signal?.throwIfAborted();
      toYuv(frame, width, height, pixels);
      const sample = new VideoSample(pixels, {
        format: "I420",
        colorSpace: BT709,
        codedWidth: width,
        codedHeight: height,
        timestamp: count++ / fps,
        duration: 1 / fps,
      });
      try {
        await source.add(sample);
      } finally {
        sample.close();
      }
    },
    async finish() {
      if (signal?.aborted) await output.cancel();
      signal?.throwIfAborted();
      await output.finalize();
      return new Blob([output.target.buffer!], { type: `video/${format}` });
    },
  };
}
