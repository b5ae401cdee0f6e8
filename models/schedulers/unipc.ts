/**
 * UniPC as a model's configuration asks for it: its noise levels, and what it says of the solver.
 */
import { excerpt } from "../../hub/json_file.ts";
import {
  booleanField,
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
import { SIGMA_EPSILON, type UnipcOptions, unipcSchedule } from "./unipc_steps.ts";

/** Highest order of a solver; the method is used with 2 and 3. */
const MAX_ORDER = 9;

/** diffusers' `UniPCMultistepScheduler` for flow prediction. */
export class UniPcScheduler implements Scheduler {
  readonly own = { sampler: "uni_pc" } as const;
  readonly #trainTimesteps: number;
  readonly #solver: UnipcOptions;
  readonly #shift: SigmaShift;
  readonly #finalSigmas: "zero" | "sigma_min";

  /** Reads a parsed `scheduler_config.json`; absent keys take diffusers' defaults. */
  constructor(config: SchedulerConfig) {
    refuseFields(config, [
      "thresholding",
      "solver_p",
      "use_karras_sigmas",
      "use_exponential_sigmas",
      "use_beta_sigmas",
    ]);
    this.#trainTimesteps = flowTrainTimesteps(config);
    if (!booleanField(config, "predict_x0", true)) {
      throw new TypeError("Cannot use the scheduler's predict_x0 false: only true is supported");
    }
    const order = boundedField(config, "solver_order", 2, 1, MAX_ORDER);
    if (!Number.isSafeInteger(order)) {
      throw new TypeError(
        `Cannot use the scheduler's solver_order ${order}: it must be a whole number`,
      );
    }
    this.#solver = {
      order,
      solverType: solverType(config),
      lowerOrderFinal: booleanField(config, "lower_order_final", true),
      disableCorrector: new Set(integerList(config, "disable_corrector")),
    };
    this.#shift = new SigmaShift(config, "flow_shift");
    this.#finalSigmas = choiceField(config, "final_sigmas_type", ["zero", "sigma_min"], "zero");
  }

  /** Whether {@link setTimesteps} needs `mu`. */
  get usesDynamicShifting(): boolean {
    return this.#shift.isDynamic;
  }

  /**
   * Timesteps are whole numbers, cut off after multiplying, as the reference casts them. With
   * `start` the solver begins there without history, as the reference does.
   */
  setTimesteps(numInferenceSteps: number, options: ScheduleOptions = {}): Schedule {
    const start = checkedRange(numInferenceSteps, options);
    const { sampler = this.own.sampler } = options;
    if (sampler === "dmd") {
      return dmdSchedule(this.#shift, this.#trainTimesteps, options, numInferenceSteps);
    }
    const shifted = this.#shiftedSigmas(numInferenceSteps, options);
    const timesteps = Float64Array.from(
      shifted.slice(start),
      (sigma) => Math.trunc(sigma * this.#trainTimesteps),
    );
    const last = this.#finalSigmas === "zero" ? 0 : shifted[shifted.length - 1]!;
    const sigmas = Float64Array.from([...shifted, last].slice(start), Math.fround);
    return sampler === "uni_pc"
      ? unipcSchedule({ timesteps, sigmas }, this.#solver, start)
      : samplerSchedule(sampler, { timesteps, sigmas });
  }

  #shiftedSigmas(count: number, options: ScheduleOptions): number[] {
    const sigmas = noiseLevels(count, options, {
      shift: this.#shift,
      trainTimesteps: this.#trainTimesteps,
      own: () => linspace(1, 1 / this.#trainTimesteps, count + 1).slice(0, -1),
      round: exact,
    });
    if (Math.abs(sigmas[0]! - 1) < SIGMA_EPSILON) sigmas[0]! -= SIGMA_EPSILON;
    return sigmas;
  }
}

/** `solver_type`; the reference reads the names of older solvers as `bh2`. */
function solverType(config: SchedulerConfig): "bh1" | "bh2" {
  const choices = ["bh1", "bh2", "midpoint", "heun", "logrho"] as const;
  return choiceField(config, "solver_type", choices, "bh2") === "bh1" ? "bh1" : "bh2";
}

function integerList(config: SchedulerConfig, key: string): number[] {
  const value = config[key] ?? [];
  if (!Array.isArray(value) || !value.every((item) => Number.isSafeInteger(item))) {
    throw new TypeError(
      `Cannot read the scheduler's ${key}: ${excerpt(value)} is not a list of whole numbers`,
    );
  }
  return value as number[];
}
