/**
 * The logarithm of the mel bands of a sound, as LTX-2's audio autoencoder takes it; computed on the CPU.
 * Source: Lightricks' `AudioProcessor`, torchaudio's `MelSpectrogram` with the scale and the norm of Slaney's toolbox.
 */
import { fitSamples, type Waveform } from "../../../media/waveform.ts";
import { AUDIO_SCALE, type Ltx2AudioVaeConfig } from "./audio_config.ts";

/** Samples that a spectrum is of. */
const WINDOW = 1024;
/** Magnitudes below it count as much. */
const LEAST = 1e-5;

/** What the autoencoder sees of a sound, by which `latents` are made: [1, frames, bands, channels]. */
export interface MelBands {
  readonly shape: readonly [1, number, number, number];
  readonly data: Float32Array;
}

/** Mel frames that so many latents see. */
export function melFrames(latents: number): number {
  return AUDIO_SCALE * (latents - 1) + 1;
}

/** `seconds` of a sound at the sampling rate of the autoencoder; silence follows where it ends before. */
export function melBands(
  sound: Waveform,
  config: Ltx2AudioVaeConfig,
  { seconds, latents }: { readonly seconds: number; readonly latents: number },
): MelBands {
  const { sample_rate: rate, mel_hop_length: hop, mel_bins: bands, in_channels: count } = config;
  const frames = melFrames(latents);
  const length = Math.round(seconds * rate);
  const filters = melFilters(rate, bands);
  const window = Float64Array.from(
    { length: WINDOW },
    (_, i) => 0.5 - 0.5 * Math.cos(2 * Math.PI * i / WINDOW),
  );
  const data = new Float32Array(frames * bands * count);
  const [real, imaginary] = [new Float64Array(WINDOW), new Float64Array(WINDOW)];
  for (const [channel, samples] of sound.channels.entries()) {
    const own = fitSamples(samples, length);
    for (let frame = 0; frame < frames; frame++) {
      for (let i = 0; i < WINDOW; i++) {
        real[i] = window[i]! * own[mirrored(frame * hop + i - WINDOW / 2, length)]!;
      }
      imaginary.fill(0);
      transform(real, imaginary);
      for (const [band, { start, shares }] of filters.entries()) {
        let sum = 0;
        for (let i = 0; i < shares.length; i++) {
          sum += shares[i]! * Math.hypot(real[start + i]!, imaginary[start + i]!);
        }
        data[(frame * bands + band) * count + channel] = Math.log(Math.max(sum, LEAST));
      }
    }
  }
  return { shape: [1, frames, bands, count], data };
}

/** Ends are mirrored, as often as it takes. */
function mirrored(place: number, length: number): number {
  if (length === 1) return 0;
  const period = 2 * (length - 1);
  const within = ((place % period) + period) % period;
  return Math.min(within, period - within);
}

/** Slaney's scale: even below 1000 Hz, logarithmic above. */
const EVEN = 1000;
const EVEN_STEP = 200 / 3;
const LOG_STEP = Math.log(6.4) / 27;

const toMel = (hertz: number) =>
  hertz < EVEN ? hertz / EVEN_STEP : EVEN / EVEN_STEP + Math.log(hertz / EVEN) / LOG_STEP;

const toHertz = (mel: number) =>
  mel < EVEN / EVEN_STEP ? mel * EVEN_STEP : EVEN * Math.exp(LOG_STEP * (mel - EVEN / EVEN_STEP));

/** What places of a spectrum a band adds up, from `start` on. */
interface MelFilter {
  readonly start: number;
  readonly shares: Float64Array;
}

/** Triangles of equal areas. */
function melFilters(rate: number, bands: number): MelFilter[] {
  const most = toMel(rate / 2);
  const edges = Array.from({ length: bands + 2 }, (_, i) => toHertz(most * i / (bands + 1)));
  const step = rate / WINDOW;
  return Array.from({ length: bands }, (_, band) => {
    const [low, middle, high] = edges.slice(band, band + 3) as [number, number, number];
    const start = Math.ceil(low / step);
    const shares = Float64Array.from(
      { length: Math.max(0, Math.min(WINDOW / 2, Math.floor(high / step)) - start + 1) },
      (_, i) => {
        const hertz = (start + i) * step;
        const share = Math.min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
        return Math.max(0, share) * 2 / (high - low);
      },
    );
    return { start, shares };
  });
}

/** The Fourier transform, in place. Source: Cooley and Tukey 1965. */
function transform(real: Float64Array, imaginary: Float64Array): void {
  const { length } = real;
  for (let i = 1, j = 0; i < length; i++) {
    let bit = length >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i >= j) continue;
    [real[i], real[j]] = [real[j]!, real[i]!];
    [imaginary[i], imaginary[j]] = [imaginary[j]!, imaginary[i]!];
  }
  for (let size = 2; size <= length; size *= 2) {
    const half = size / 2;
    for (let k = 0; k < half; k++) {
      const angle = -2 * Math.PI * k / size;
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
      for (let i = k; i < length; i += size) {
        const [x, y] = [real[i + half]!, imaginary[i + half]!];
        const [u, v] = [x * cos - y * sin, x * sin + y * cos];
        real[i + half] = real[i]! - u;
        imaginary[i + half] = imaginary[i]! - v;
        real[i] = real[i]! + u;
        imaginary[i] = imaginary[i]! + v;
      }
    }
  }
}
