/**
 * What schedulers of rectified flows share. `simple` and `sgm_uniform` choose levels before the shift, as given lists do;
 * `karras`, `exponential` and `beta` redistribute levels between the ends of the shifted ones.
 * Sources: diffusers' FlowMatchEulerDiscreteScheduler; `simple_scheduler` and `normal_scheduler(sgm=True)` of ComfyUI.
 */

import { boundedField, MAX_TRAIN_TIMESTEPS, type SchedulerConfig } from "./config.ts";
import { dmdSchedule } from "./dmd.ts";
import { NOISE_SCHEDULES, type SamplerName, SAMPLERS } from "./names.ts";
import { flowProcess, type Process } from "./process.ts";
import { isRedistribution, redistributed } from "./redistribution.ts";
import { FLOW_SAMPLERS, samplerSchedule } from "./samplers.ts";
import {
  checkedRange,
  namesOf,
  type SamplingChoices,
  type Schedule,
  type ScheduleOptions,
  type Scheduler,
} from "./schedule.ts";
import { exact, linspace, type Rounding, SigmaShift } from "./shift.ts";
import type { Levels } from "./steps.ts";

/** What requests choose from with a rectified flow. */
export const FLOW_CHOICES: SamplingChoices = {
  samplers: namesOf(SAMPLERS, FLOW_SAMPLERS),
  schedulers: NOISE_SCHEDULES,
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
    const levels = () => {
      if (scheduler === "simple") return simpleLevels(count, this.trainTimesteps);
      if (scheduler === "sgm_uniform") {
        const last = this.shift.shiftOne(1 / this.trainTimesteps, options);
        return linspace(1, last, count + 1).slice(0, -1);
      }
      return sigmas ?? own();
    };
    const shifted = this.shift.apply(levels(), options, round);
    return isRedistribution(scheduler)
      ? redistributed(scheduler, shifted[0]!, shifted[count - 1]!, count)
      : shifted;
  }
}

function simpleLevels(count: number, trainTimesteps: number): number[] {
  return Array.from(
    { length: count },
    (_, i) => (trainTimesteps - Math.trunc(i * (trainTimesteps / count))) / trainTimesteps,
  );
}
