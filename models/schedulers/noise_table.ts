/**
 * The noise levels of a diffusion model's training, one for each timestep: σ = √((1 − ᾱ)/ᾱ), where ᾱ is the product of 1 − β.
 * The betas and ᾱ are those of the reference's float32, bit for bit: 1 − ᾱ loses four digits at the first timesteps.
 * Sources: Ho et al. 2020, "Denoising Diffusion Probabilistic Models"; Nichol and Dhariwal 2021 for the cosine; Lin et al. 2023,
 * "Common Diffusion Noise Schedules and Sample Steps are Flawed", for zero terminal SNR; diffusers' schedulers.
 */
import { excerpt } from "../../hub/json_file.ts";
import {
  booleanField,
  boundedField,
  choiceField,
  MAX_TRAIN_TIMESTEPS,
  type SchedulerConfig,
} from "./config.ts";

const fround = Math.fround;

/** ᾱ at the last timestep under zero terminal SNR, as most classes of diffusers have it: σ is 4096. */
const TERMINAL_SIGNAL = 2 ** -24;

/** In place of 0, where σ would be infinite: small enough that float32 loses no digit. */
const LEAST_SIGNAL = 2 ** -48;

export class NoiseTable {
  readonly sigmas: Float64Array;
  readonly #logarithms: Float64Array;
  readonly #last: number;

  /** `last` is the level of the last timestep where it may be higher; see {@link sigmaWithoutFloor}. */
  constructor(sigmas: Float64Array, last = sigmas.at(-1)!) {
    this.sigmas = sigmas;
    this.#logarithms = sigmas.map(Math.log);
    this.#last = last;
  }

  static fromBetas(config: SchedulerConfig, betas: BetaRange): NoiseTable {
    const values = betasOf(config, betas);
    const rescales = booleanField(config, "rescale_betas_zero_snr", false);
    const signals = cumulativeSignals(rescales ? withoutTerminalSignal(values) : values);
    if (rescales) signals[signals.length - 1] = TERMINAL_SIGNAL;
    const sigmas = Float64Array.from(signals, sigmaOf);
    return new NoiseTable(sigmas, rescales ? sigmaOf(LEAST_SIGNAL) : undefined);
  }

  get length(): number {
    return this.sigmas.length;
  }

  /** σ at a timestep that may lie between two; `logarithmic` interpolates ln σ. */
  sigma(timestep: number, logarithmic = false): number {
    const values = logarithmic ? this.#logarithms : this.sigmas;
    const at = Math.min(Math.max(timestep, 0), this.length - 1);
    const low = Math.min(Math.floor(at), this.length - 2);
    const value = values[low]! + (at - low) * (values[low + 1]! - values[low]!);
    return logarithmic ? Math.exp(value) : value;
  }

  /** σ at a whole timestep, for classes of the reference that leave ᾱ at 0 under zero terminal SNR. */
  sigmaWithoutFloor(timestep: number): number {
    return timestep >= this.length - 1 ? this.#last : this.sigmas[timestep]!;
  }

  /** The timestep of a level, by interpolation of ln σ; the nearest end for a level beyond. */
  timestep(sigma: number): number {
    const value = Math.log(Math.max(sigma, 1e-10));
    const logs = this.#logarithms;
    const above = logs.findIndex((log) => log > value);
    if (above === 0) return 0;
    const high = above < 0 ? logs.length - 1 : above;
    const share = (value - logs[high - 1]!) / (logs[high]! - logs[high - 1]!);
    return high - 1 + Math.min(share, 1);
  }
}

const BETA_SCHEDULES = ["linear", "scaled_linear", "squaredcos_cap_v2"] as const;

export interface BetaRange {
  readonly start: number;
  readonly end: number;
  readonly schedule: (typeof BETA_SCHEDULES)[number];
}

function betasOf(
  config: SchedulerConfig,
  defaults: BetaRange,
): number[] {
  const count = boundedField(config, "num_train_timesteps", 1000, 2, MAX_TRAIN_TIMESTEPS);
  const trained = config["trained_betas"] ?? undefined;
  if (trained !== undefined) return trainedBetas(trained, count);
  const start = boundedField(config, "beta_start", defaults.start, 0, 1);
  const end = boundedField(config, "beta_end", defaults.end, 0, 1);
  const schedule = choiceField(config, "beta_schedule", BETA_SCHEDULES, defaults.schedule);
  if (schedule === "linear") return float32Linspace(start, end, count);
  if (schedule === "scaled_linear") {
    return float32Linspace(Math.sqrt(start), Math.sqrt(end), count).map((root) =>
      fround(root ** 2)
    );
  }
  return Array.from(
    { length: count },
    (_, i) => fround(Math.min(1 - cosineSignal((i + 1) / count) / cosineSignal(i / count), 0.999)),
  );
}

function trainedBetas(value: unknown, count: number): number[] {
  const fits = Array.isArray(value) && value.length === count &&
    value.every((beta) => typeof beta === "number" && beta > 0 && beta < 1);
  if (fits) return (value as number[]).map(fround);
  throw new TypeError(
    `Cannot read the scheduler's trained_betas: ${
      excerpt(value)
    } is not a list of ${count} numbers between 0 and 1`,
  );
}

function sigmaOf(signal: number): number {
  return Math.sqrt((1 - signal) / signal);
}

function cosineSignal(time: number): number {
  return Math.cos((time + 0.008) / 1.008 * Math.PI / 2) ** 2;
}

/** As `torch.linspace` counts: from both ends, each value rounded once. */
function float32Linspace(first: number, last: number, count: number): number[] {
  const [start, end] = [fround(first), fround(last)];
  const step = fround(fround(end - start) / (count - 1));
  return Array.from(
    { length: count },
    (_, i) => fround(i < count / 2 ? start + step * i : end - step * (count - 1 - i)),
  );
}

function cumulativeSignals(betas: readonly number[]): number[] {
  let product = 1;
  return betas.map((beta) => fround(product *= fround(1 - beta)));
}

/** Betas under which the last timestep is noise alone and the first stays as it is. */
function withoutTerminalSignal(betas: readonly number[]): number[] {
  const roots = cumulativeSignals(betas).map((signal) => fround(Math.sqrt(signal)));
  const [first, last] = [roots[0]!, roots.at(-1)!];
  const stretch = fround(first / fround(first - last));
  const signals = roots.map((root) => fround(fround(fround(root - last) * stretch) ** 2));
  return signals.map((signal, i) => fround(1 - (i ? fround(signal / signals[i - 1]!) : signal)));
}
