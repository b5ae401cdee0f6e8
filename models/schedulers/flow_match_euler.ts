/**
 * Noise levels along a rectified flow, with Euler steps unless another sampler is asked for.
 *
 * Source: Esser et al., "Scaling Rectified Flow Transformers for High-Resolution Image Synthesis",
 * 2024, and diffusers' FlowMatchEulerDiscreteScheduler, whose float32 sigmas and timesteps these are
 * bit for bit.
 */
import {
  booleanField,
  boundedField,
  MAX_TRAIN_TIMESTEPS,
  numberField,
  refuseFields,
  type SchedulerConfig,
} from "./config.ts";
import { dmdSchedule, samplerSchedule } from "./samplers.ts";
import type { NoiseScheduleName } from "./names.ts";
import { noiseLevels } from "./noise_levels.ts";
import { checkedRange, type Schedule, type ScheduleOptions, type Scheduler } from "./schedule.ts";
import { exact, linspace, SigmaShift } from "./shift.ts";

const fround = Math.fround;

/** Switches that space the noise levels otherwise. */
const SPACINGS: readonly (readonly [key: string, spacing: NoiseScheduleName])[] = [
  ["use_karras_sigmas", "karras"],
  ["use_exponential_sigmas", "exponential"],
  ["use_beta_sigmas", "beta"],
];

/** diffusers' `FlowMatchEulerDiscreteScheduler`. */
export class FlowMatchEulerScheduler implements Scheduler {
  readonly own: Scheduler["own"];
  readonly #trainTimesteps: number;
  readonly #shift: SigmaShift;
  readonly #base: { readonly tokens: number; readonly shift: number };
  readonly #max: { readonly tokens: number; readonly shift: number };

  /** Reads a parsed `scheduler_config.json`; absent keys take diffusers' defaults. */
  constructor(config: SchedulerConfig) {
    refuseFields(config, ["invert_sigmas"]);
    const spacing = SPACINGS.find(([key]) => booleanField(config, key, false))?.[1];
    const sampler = booleanField(config, "stochastic_sampling", false) ? "lcm" : "euler";
    this.own = { sampler, ...(spacing && { scheduler: spacing }) };
    this.#trainTimesteps = boundedField(
      config,
      "num_train_timesteps",
      1000,
      1,
      MAX_TRAIN_TIMESTEPS,
    );
    this.#shift = new SigmaShift(config, "shift");
    this.#base = {
      tokens: numberField(config, "base_image_seq_len", 256),
      shift: numberField(config, "base_shift", 0.5),
    };
    this.#max = {
      tokens: numberField(config, "max_image_seq_len", 4096),
      shift: numberField(config, "max_shift", 1.15),
    };
  }

  /** Whether {@link setTimesteps} needs `mu`. */
  get usesDynamicShifting(): boolean {
    return this.#shift.isDynamic;
  }

  /**
   * The `mu` of an image: linear in its tokens, through the two points of the configuration
   * (`base_image_seq_len`, `base_shift`) and (`max_image_seq_len`, `max_shift`).
   *
   * @param imageTokens tokens that the transformer sees of the image
   */
  mu(imageTokens: number): number {
    const slope = (this.#max.shift - this.#base.shift) / (this.#max.tokens - this.#base.tokens);
    return imageTokens * slope + (this.#base.shift - slope * this.#base.tokens);
  }

  /**
   * Sigmas are shifted, stretched to `shift_terminal` and followed by 0; timesteps are
   * `num_train_timesteps` times the sigmas, in float32.
   */
  setTimesteps(numInferenceSteps: number, options: ScheduleOptions = {}): Schedule {
    const start = checkedRange(numInferenceSteps, options);
    const spaced = { ...options, scheduler: options.scheduler ?? this.own.scheduler };
    const { sampler = this.own.sampler } = options;
    if (sampler === "dmd") {
      return dmdSchedule(this.#shift, this.#trainTimesteps, options, numInferenceSteps);
    }
    const all = [...this.#shiftedSigmas(numInferenceSteps, spaced).map(fround), 0];
    const sigmas = Float64Array.from(all.slice(start));
    const timesteps = sigmas.slice(0, -1).map((sigma) => fround(sigma * this.#trainTimesteps));
    return samplerSchedule(sampler, { timesteps, sigmas });
  }

  #shiftedSigmas(count: number, options: ScheduleOptions): number[] {
    const given = options.sigmas?.map(fround);
    return noiseLevels(count, { ...options, ...(given && { sigmas: given }) }, {
      shift: this.#shift,
      trainTimesteps: this.#trainTimesteps,
      own: () => this.#defaultSigmas(count, options.shift),
      // Sigmas that a caller gives pass through float32; the scheduler's own are float64.
      round: given === undefined ? exact : fround,
    });
  }

  /** Evenly spaced between the ends of the training schedule, which is itself shifted already. */
  #defaultSigmas(count: number, shift: number | undefined): number[] {
    const trained = (timestep: number): number =>
      this.#shift.applyStatic(fround(timestep / this.#trainTimesteps), fround, shift);
    const first = trained(this.#trainTimesteps) * this.#trainTimesteps;
    const last = trained(1) * this.#trainTimesteps;
    return linspace(first, last, count).map((timestep) => timestep / this.#trainTimesteps);
  }
}
