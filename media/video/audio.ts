/** Files with sound: what they say of themselves, and their samples. */

import { Slots } from "../isolated/slots.ts";
import type { Waveform } from "../waveform.ts";
import type { Ffmpeg } from "./ffmpeg.ts";
import { listPackets, Packets } from "./packets.ts";
import { openUntrusted, READ_LIMITS, unreadable } from "./video_file.ts";

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
    const packets = new Packets();
    try {
      await listPackets(ffmpeg, path, packets, {
        tracks: "audio",
        selected: ["-map", "0:a:0?", "-frames:a", String(MAX_PACKETS)],
        signal,
      });
    } catch (error) {
      throw audioError(error);
    }
    packets.finish();
    const [codec, { seconds }] = [packets.header("codec_id 0"), packets];
    if (codec === undefined || !(seconds > 0)) {
      throw new AudioError(
        "Cannot read the sound: the file has none; send one with an audio track",
      );
    }
    return { codec, seconds };
  }, { signal });
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
  const formats = "WAV, MP3, FLAC, OGG, M4A or a video";
  const why = unreadable(error, { size: "shorter", formats });
  return why === undefined
    ? error
    : new AudioError(`Cannot read the sound: ${why}`, { cause: error });
}
