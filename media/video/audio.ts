/** Files with sound: what they say of themselves, and their samples. */

import { Slots } from "../isolated/slots.ts";
import type { Waveform } from "../waveform.ts";
import { type Ffmpeg, FfmpegError, FfmpegTimeError } from "./ffmpeg.ts";
import { openUntrusted, PROBE_LIMITS, READ_LIMITS } from "./video_file.ts";

/** A file that has no sound, or none that can be read. */
export class AudioError extends Error {
  override readonly name: string = "AudioError";
}

export interface AudioInfo {
  /** Codec of the first audio track, by FFmpeg's name, such as `aac`. */
  readonly codec: string;
  /** How long it lasts. */
  readonly seconds: number;
}

export interface ReadAudioOptions {
  /** Samples per second of the result. */
  readonly sampleRate: number;
  /** Channels of the result: 2 for stereo. */
  readonly channels: number;
  /** No more comes out. */
  readonly seconds: number;
  readonly signal?: AbortSignal | undefined;
}

/** Packets that are looked at. */
const MAX_PACKETS = 200_000;

/** Two files are looked at the same time, and so many wait. */
const probing = new Slots({ count: 2, perClient: 1, waiting: 128 });

/** Reads the container of a sound or video: codec and times of the first audio track. @throws {AudioError} where there is none */
export async function probeAudio(
  ffmpeg: Ffmpeg,
  path: string,
  { signal }: { signal?: AbortSignal } = {},
): Promise<AudioInfo> {
  return await probing.run(async () => {
    let listing = "";
    try {
      const stream = ffmpeg.decode({
        inputs: [path],
        signal,
        limits: PROBE_LIMITS,
        arguments: ({ inputs, output }) => [
          ...openUntrusted(inputs[0]!, "audio"),
          ...["-map", "0:a:0?", "-c", "copy", "-frames:a", String(MAX_PACKETS)],
          ...["-f", "framecrc", output],
        ],
      });
      const text = stream as ReadableStream<Uint8Array<ArrayBuffer>>;
      for await (const part of text.pipeThrough(new TextDecoderStream())) listing += part;
    } catch (error) {
      throw audioError(error);
    }
    return infoOf(listing);
  }, { signal });
}

/** Reads a listing of packets, FFmpeg's `framecrc`, of an audio track. */
function infoOf(listing: string): AudioInfo {
  const codec = /^#codec_id 0: (\S+)/m.exec(listing)?.[1];
  const [, ticks, perSecond] = /^#tb 0: (\d+)\/(\d+)/m.exec(listing) ?? [];
  let [begin, end] = [Infinity, -Infinity];
  for (const [, pts, duration] of listing.matchAll(/^0, *-?\d+, *(-?\d+), *(\d+),/gm)) {
    begin = Math.min(begin, Number(pts));
    end = Math.max(end, Number(pts) + Number(duration));
  }
  const seconds = (end - begin) * Number(ticks) / Number(perSecond);
  if (codec === undefined || !(seconds > 0)) {
    throw new AudioError("Cannot read the sound: the file has none; send one with an audio track");
  }
  return { codec, seconds };
}

/** Decodes the first audio track, resampled and mixed to as many channels. @throws {AudioError} for a damaged file */
export async function readAudio(
  ffmpeg: Ffmpeg,
  path: string,
  { sampleRate, channels: count, seconds, signal }: ReadAudioOptions,
): Promise<Waveform> {
  const parts: Uint8Array[] = [];
  try {
    const stream = ffmpeg.decode({
      inputs: [path],
      signal,
      limits: READ_LIMITS,
      arguments: ({ inputs, output }) => [
        ...openUntrusted(inputs[0]!, "audio"),
        ...["-map", "0:a:0", "-t", String(seconds)],
        ...["-ar", String(sampleRate), "-ac", String(count), "-f", "f32le", output],
      ],
    });
    for await (const part of stream) parts.push(part);
  } catch (error) {
    throw audioError(error);
  }
  const bytes = new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
  const samples = new Float32Array(bytes.buffer, 0, Math.floor(bytes.length / 4));
  const length = Math.floor(samples.length / count);
  if (length === 0) throw new AudioError("Cannot read the sound: nothing of it could be decoded");
  const channels = Array.from(
    { length: count },
    (_, channel) => Float32Array.from({ length }, (_, i) => samples[i * count + channel]!),
  );
  return { sampleRate, channels };
}

function audioError(error: unknown): unknown {
  if (!(error instanceof FfmpegError)) return error;
  const why = error instanceof FfmpegTimeError
    ? `${error.message}; send a shorter one`
    : "it is damaged or of no known format; send WAV, MP3, FLAC, OGG, M4A or a video";
  return new AudioError(`Cannot read the sound: ${why}`, { cause: error });
}
