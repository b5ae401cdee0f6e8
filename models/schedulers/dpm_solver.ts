/**
 * DPM-Solver++ as a model's configuration asks for it, with the noise levels that diffusers' class visits.
 */
import {
  boundedField,
  choiceField,
  flowTrainTimesteps,
  refuseFields,
  type SchedulerConfig,
} from "./config.ts";
import { dmdSchedule, samplerSchedule } from "./samplers.ts";
import { noiseLevels } from "./noise_levels.ts";
import { checkedRange, type Schedule, type ScheduleOptions, type Scheduler } from "./schedule.ts";
import { exact, linspace, SigmaShift } from "./shift.ts";

/** diffusers' `DPMSolverMultistepScheduler` for flow prediction: second order, by the midpoint. */
export class DpmSolverScheduler implements Scheduler {
  readonly own = { sampler: "dpmpp_2m" } as const;
  readonly #trainTimesteps: number;
  readonly #shift: SigmaShift;

  /** Reads a parsed `scheduler_config.json`; absent keys take diffusers' defaults. */
  constructor(config: SchedulerConfig) {
    refuseFields(config, [
      ...["thresholding", "use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"],
      ...["use_lu_lambdas", "euler_at_final"],
    ]);
    this.#trainTimesteps = flowTrainTimesteps(config);
    choiceField(config, "algorithm_type", ["dpmsolver++"], "dpmsolver++");
    choiceField(config, "solver_type", ["midpoint"], "midpoint");
    choiceField(config, "final_sigmas_type", ["zero"], "zero");
    boundedField(config, "solver_order", 2, 2, 2);
    this.#shift = new SigmaShift(config, "flow_shift");
  }

  /** Whether {@link setTimesteps} needs `mu`. */
  get usesDynamicShifting(): boolean {
    return this.#shift.isDynamic;
  }

  /** Timesteps are whole numbers, cut off after multiplying, as the reference casts them. */
  setTimesteps(numInferenceSteps: number, options: ScheduleOptions = {}): Schedule {
    const start = checkedRange(numInferenceSteps, options);
    const { sampler = this.own.sampler } = options;
    if (sampler === "dmd") {
      return dmdSchedule(this.#shift, this.#trainTimesteps, options, numInferenceSteps);
    }
    const shifted = noiseLevels(numInferenceSteps, options, {
      shift: this.#shift,
      trainTimesteps: this.#trainTimesteps,
      // From just below 1: the reference leaves out the other end, which is 0.
      own: () =>
        linspace(1, 1 / this.#trainTimesteps, numInferenceSteps + 1).slice(1)
          .map((alpha) => 1 - alpha).reverse(),
      round: exact,
    }).slice(start);
    const timesteps = Float64Array.from(
      shifted,
      (sigma) => Math.trunc(sigma * this.#trainTimesteps),
    );
    const sigmas = Float64Array.from([...shifted, 0], Math.fround);
    return samplerSchedule(sampler, { timesteps, sigmas });
  }
}
