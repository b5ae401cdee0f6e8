/**
 * What schedulers of rectified flows share. `simple` and `sgm_uniform` choose levels before the shift, as given lists do;
 * `karras`, `exponential` and `beta` redistribute levels between the ends of the shifted ones.
 * Sources: diffusers' FlowMatchEulerDiscreteScheduler; `simple_scheduler` and `normal_scheduler(sgm=True)` of ComfyUI.
 */

import { boundedField, type SchedulerConfig } from "./config.ts";
import type { SamplerName } from "./names.ts";
import { dmdSchedule, type Levels, samplerSchedule } from "./samplers.ts";
import { checkedRange, type Schedule, type ScheduleOptions, type Scheduler } from "./schedule.ts";
import { exact, linspace, type Rounding, SigmaShift } from "./shift.ts";

/** Most training timesteps; models use 1000. */
const MAX_TRAIN_TIMESTEPS = 1_000_000;

/** The exponent of Karras et al., "Elucidating the Design Space of Diffusion-Based Generative Models", 2022. */
const KARRAS_RHO = 7;

/** α and β of the beta distribution: Lee et al., "Beta Sampling is All You Need", 2024. */
const BETA_SHAPE = 0.6;

/** Terms of the continued fraction: up to x = ½, where it is used, 40 leave no digit of float64. */
const FRACTION_TERMS = 40;

export abstract class FlowScheduler implements Scheduler {
  abstract readonly own: Scheduler["own"];
  protected readonly trainTimesteps: number;
  protected readonly shift: SigmaShift;

  constructor(config: SchedulerConfig, shiftKey: "shift" | "flow_shift") {
    this.trainTimesteps = boundedField(config, "num_train_timesteps", 1000, 1, MAX_TRAIN_TIMESTEPS);
    this.shift = new SigmaShift(config, shiftKey);
  }

  get usesDynamicShifting(): boolean {
    return this.shift.isDynamic;
  }

  setTimesteps(numInferenceSteps: number, options: ScheduleOptions = {}): Schedule {
    const start = checkedRange(numInferenceSteps, options);
    const { sampler = this.own.sampler } = options;
    if (sampler === "dmd") {
      return dmdSchedule(this.shift, this.trainTimesteps, options, numInferenceSteps);
    }
    const { timesteps, sigmas } = this.levels(numInferenceSteps, options);
    const taken = { timesteps: timesteps.slice(start), sigmas: sigmas.slice(start) };
    return this.schedule(sampler, taken, start);
  }

  protected abstract levels(count: number, options: ScheduleOptions): Levels;

  protected schedule(sampler: SamplerName, levels: Levels, _start: number): Schedule {
    return samplerSchedule(sampler, levels);
  }

  /** The shifted levels of `count` steps, without the last 0; `own` are the scheduler's before the shift. */
  protected shifted(
    count: number,
    options: ScheduleOptions,
    own: () => number[],
    round: Rounding = exact,
  ): number[] {
    const { scheduler, sigmas } = options;
    const levels = () => {
      if (scheduler === "simple") return simpleLevels(count, this.trainTimesteps);
      if (scheduler === "sgm_uniform") {
        const last = this.shift.shiftOne(1 / this.trainTimesteps, options);
        return linspace(1, last, count + 1).slice(0, -1);
      }
      return sigmas ?? own();
    };
    const shifted = this.shift.apply(levels(), options, round);
    const [first, last] = [shifted[0]!, shifted[count - 1]!];
    if (scheduler === "karras") {
      const ends = [first, last].map((sigma) => sigma ** (1 / KARRAS_RHO)) as [number, number];
      return linspace(...ends, count).map((root) => root ** KARRAS_RHO);
    }
    if (scheduler === "exponential") {
      return linspace(Math.log(first), Math.log(last), count).map(Math.exp);
    }
    if (scheduler === "beta") {
      return linspace(0, 1, count).map((t) => last + betaQuantile(1 - t) * (first - last));
    }
    return shifted;
  }
}

function simpleLevels(count: number, trainTimesteps: number): number[] {
  return Array.from(
    { length: count },
    (_, i) => (trainTimesteps - Math.trunc(i * (trainTimesteps / count))) / trainTimesteps,
  );
}

/** Where the beta distribution with α = β = {@linkcode BETA_SHAPE} has the share `p`, 0 to 1, below it. */
function betaQuantile(p: number): number {
  if (p === 0 || p === 1) return p;
  // The distribution is symmetric, and its fraction converges up to the middle.
  if (p > 0.5) return 1 - betaQuantile(1 - p);
  const share = 2 * p * betaMass(0.5);
  let [low, high] = [0, 0.5];
  for (;;) {
    const middle = (low + high) / 2;
    if (middle <= low || middle >= high) return middle;
    if (betaMass(middle) < share) low = middle;
    else high = middle;
  }
}

/** B(x; α, α) times α, x in [0, ½], by its continued fraction. Source: NIST DLMF, 8.17.22. */
function betaMass(x: number): number {
  const a = BETA_SHAPE;
  let fraction = 1;
  for (let k = FRACTION_TERMS; k >= 1; k--) {
    const m = Math.floor(k / 2);
    const term = k % 2 === 0
      ? m * (a - m) / ((a + 2 * m - 1) * (a + 2 * m))
      : -(a + m) * (2 * a + m) / ((a + 2 * m) * (a + 2 * m + 1));
    fraction = 1 + term * x / fraction;
  }
  return x ** a * (1 - x) ** a / fraction;
}
