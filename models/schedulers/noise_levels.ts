/**
 * What schedulers of rectified flows share. `normal`, `simple` and `sgm_uniform` choose levels before the shift, as given lists
 * do; `karras`, `exponential` and `beta` redistribute levels between the ends of the shifted ones.
 * Sources: diffusers' FlowMatchEulerDiscreteScheduler; `simple_scheduler`, `normal_scheduler` and `kl_optimal_scheduler` of ComfyUI.
 */

import { boundedField, MAX_TRAIN_TIMESTEPS, type SchedulerConfig } from "./config.ts";
import { dmdSchedule } from "./dmd.ts";
import { NOISE_SCHEDULES, type NoiseScheduleName, type SamplerName, SAMPLERS } from "./names.ts";
import { flowProcess, type Process } from "./process.ts";
import { redistributed, type Redistribution } from "./redistribution.ts";
import { FLOW_SAMPLERS, samplerSchedule } from "./samplers.ts";
import {
  checkedRange,
  choose,
  namesOf,
  type SamplingChoices,
  type Schedule,
  type ScheduleOptions,
  type Scheduler,
} from "./schedule.ts";
import { exact, linspace, type Rounding, SigmaShift } from "./shift.ts";
import type { Levels } from "./steps.ts";

const FLOW_SCHEDULERS: Readonly<
  Partial<Record<NoiseScheduleName, (levels: FlowLevels) => number[]>>
> = {
  normal: ({ count, lowest, shifted }) => shifted(linspace(1, lowest(), count)),
  simple: ({ count, trainTimesteps, shifted }) => shifted(simpleLevels(count, trainTimesteps)),
  sgm_uniform: ({ count, lowest, shifted }) =>
    shifted(linspace(1, lowest(), count + 1).slice(0, -1)),
  karras: between("karras"),
  exponential: between("exponential"),
  beta: between("beta"),
  kl_optimal: ({ count, lowest }) => redistributed("kl_optimal", 1, lowest(), count),
};

/** What requests choose from with a rectified flow. */
export const FLOW_CHOICES: SamplingChoices = {
  samplers: namesOf(SAMPLERS, FLOW_SAMPLERS),
  schedulers: namesOf(NOISE_SCHEDULES, FLOW_SCHEDULERS),
  maxSigma: 1,
};

export abstract class FlowScheduler implements Scheduler {
  abstract readonly own: Scheduler["own"];
  readonly choices = FLOW_CHOICES;
  protected readonly trainTimesteps: number;
  protected readonly shift: SigmaShift;
  protected readonly process: Process;

  constructor(config: SchedulerConfig, shiftKey: "shift" | "flow_shift") {
    this.trainTimesteps = boundedField(config, "num_train_timesteps", 1000, 1, MAX_TRAIN_TIMESTEPS);
    this.shift = new SigmaShift(config, shiftKey);
    this.process = flowProcess(this.trainTimesteps);
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
    return samplerSchedule(sampler, levels, this.process);
  }

  /** The shifted levels of `count` steps, without the last 0; `own` are the scheduler's before the shift. */
  protected shifted(
    count: number,
    options: ScheduleOptions,
    own: () => number[],
    round: Rounding = exact,
  ): number[] {
    const { scheduler, sigmas } = options;
    const shifted = (levels: readonly number[]) => this.shift.apply(levels, options, round);
    const usual = () => shifted(sigmas ?? own());
    if (scheduler === undefined) return usual();
    const { trainTimesteps } = this;
    const lowest = () => this.shift.shiftOne(1 / trainTimesteps, options);
    return choose("scheduler", FLOW_SCHEDULERS, scheduler)(
      { count, trainTimesteps, lowest, shifted, usual },
    );
  }
}

interface FlowLevels {
  readonly count: number;
  readonly trainTimesteps: number;
  /** The lowest level of the training, shifted. */
  lowest(): number;
  shifted(levels: readonly number[]): number[];
  /** Levels without a name, shifted. */
  usual(): number[];
}

function simpleLevels(count: number, trainTimesteps: number): number[] {
  return Array.from(
    { length: count },
    (_, i) => (trainTimesteps - Math.trunc(i * (trainTimesteps / count))) / trainTimesteps,
  );
}

function between(name: Redistribution): (levels: FlowLevels) => number[] {
  return ({ count, usual }) => {
    const levels = usual();
    return redistributed(name, levels[0]!, levels[count - 1]!, count);
  };
}
