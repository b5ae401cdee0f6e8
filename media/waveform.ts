/** Sound in memory, and as a file: WAV with 16 bits a sample, which every player reads. */

/** Sound. */
export interface Waveform {
  /** Samples per second of each channel. */
  readonly sampleRate: number;
  /** Samples in [-1, 1], equally many of each channel: of stereo the left one first. */
  readonly channels: readonly Float32Array[];
}

/** Bytes before the samples. */
const HEADER_BYTES = 44;
const SAMPLE_BYTES = 2;
/** The format's name for integers of that size. */
const PCM = 1;

/** Cut, or followed by silence, so that it lasts as long as frames. */
export function fitWaveform({ sampleRate, channels }: Waveform, seconds: number): Waveform {
  const length = Math.round(seconds * sampleRate);
  return { sampleRate, channels: channels.map((samples) => fitSamples(samples, length)) };
}

/** The first samples; silence follows where there are fewer. */
export function fitSamples(samples: Float32Array, length: number): Float32Array {
  if (samples.length >= length) return samples.subarray(0, length);
  const padded = new Float32Array(length);
  padded.set(samples);
  return padded;
}

/** What is louder than the format can say is cut off. */
export function encodeWav({ sampleRate, channels }: Waveform): Uint8Array<ArrayBuffer> {
  const count = channels.length;
  const length = channels[0]?.length ?? 0;
  const dataBytes = length * count * SAMPLE_BYTES;
  const bytes = new Uint8Array(HEADER_BYTES + dataBytes);
  const view = new DataView(bytes.buffer);
  let at = 0;
  const text = (name: string) => {
    for (const letter of name) view.setUint8(at++, letter.charCodeAt(0));
  };
  const u32 = (value: number) => {
    view.setUint32(at, value, true);
    at += 4;
  };
  const u16 = (value: number) => {
    view.setUint16(at, value, true);
    at += 2;
  };
  text("RIFF");
  u32(HEADER_BYTES - 8 + dataBytes);
  text("WAVEfmt ");
  u32(16);
  u16(PCM);
  u16(count);
  u32(sampleRate);
  u32(sampleRate * count * SAMPLE_BYTES);
  u16(count * SAMPLE_BYTES);
  u16(8 * SAMPLE_BYTES);
  text("data");
  u32(dataBytes);
  for (let i = 0; i < length; i++) {
    for (const samples of channels) {
      view.setInt16(at, Math.round(32767 * Math.max(-1, Math.min(1, samples[i]!))), true);
      at += SAMPLE_BYTES;
    }
  }
  return bytes;
}
