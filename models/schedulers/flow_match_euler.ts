/**
 * Noise levels along a rectified flow; float32 sigmas and timesteps are the reference's bit for bit.
 * Source: Esser et al. 2024, "Scaling Rectified Flow Transformers for High-Resolution Image Synthesis"; diffusers
 * `FlowMatchEulerDiscreteScheduler`.
 */
import { booleanField, numberField, refuseFields, type SchedulerConfig } from "./config.ts";
import type { NoiseScheduleName } from "./names.ts";
import { FlowScheduler } from "./noise_levels.ts";
import type { ScheduleOptions, Scheduler } from "./schedule.ts";
import { exact, linspace } from "./shift.ts";
import type { Levels } from "./steps.ts";

const fround = Math.fround;

const SPACINGS: readonly (readonly [key: string, spacing: NoiseScheduleName])[] = [
  ["use_karras_sigmas", "karras"],
  ["use_exponential_sigmas", "exponential"],
  ["use_beta_sigmas", "beta"],
];

export class FlowMatchEulerScheduler extends FlowScheduler {
  readonly own: Scheduler["own"];
  readonly #base: { readonly tokens: number; readonly shift: number };
  readonly #max: { readonly tokens: number; readonly shift: number };

  constructor(config: SchedulerConfig) {
    refuseFields(config, ["invert_sigmas"]);
    super(config, "shift");
    const spacing = SPACINGS.find(([key]) => booleanField(config, key, false))?.[1];
    const sampler = booleanField(config, "stochastic_sampling", false) ? "lcm" : "euler";
    this.own = { sampler, ...(spacing && { scheduler: spacing }) };
    this.#base = {
      tokens: numberField(config, "base_image_seq_len", 256),
      shift: numberField(config, "base_shift", 0.5),
    };
    this.#max = {
      tokens: numberField(config, "max_image_seq_len", 4096),
      shift: numberField(config, "max_shift", 1.15),
    };
  }

  /** The `mu` of an image of so many tokens: linear, through the two points of the configuration. */
  mu(imageTokens: number): number {
    const slope = (this.#max.shift - this.#base.shift) / (this.#max.tokens - this.#base.tokens);
    return imageTokens * slope + (this.#base.shift - slope * this.#base.tokens);
  }

  /** Sigmas are stretched to `shift_terminal`; timesteps are `num_train_timesteps` times the sigmas, in float32. */
  protected levels(count: number, options: ScheduleOptions): Levels {
    const { scheduler = this.own.scheduler, ...others } = options;
    const given = options.sigmas?.map(fround);
    const shifted = this.shifted(
      count,
      { ...others, scheduler, sigmas: given },
      () => this.#defaultSigmas(count, options.shift),
      // Sigmas that a caller gives pass through float32; the scheduler's own are float64.
      given === undefined ? exact : fround,
    );
    const sigmas = Float64Array.from([...shifted, 0], fround);
    return {
      timesteps: sigmas.slice(0, -1).map((sigma) => fround(sigma * this.trainTimesteps)),
      sigmas,
    };
  }

  #defaultSigmas(count: number, shift: number | undefined): number[] {
    const trained = (timestep: number): number =>
      this.shift.applyStatic(fround(timestep / this.trainTimesteps), fround, shift);
    const first = trained(this.trainTimesteps) * this.trainTimesteps;
    const last = trained(1) * this.trainTimesteps;
    return linspace(first, last, count).map((timestep) => timestep / this.trainTimesteps);
  }
}
