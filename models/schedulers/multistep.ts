/** Multistep solvers as a model's configuration asks for them; diffusers made them for diffusion, they are used for flow. */
import {
  boundedField,
  choiceField,
  refuseFields,
  requireField,
  type SchedulerConfig,
} from "./config.ts";
import type { SamplerName } from "./names.ts";
import { FlowScheduler } from "./noise_levels.ts";
import { fixedSchedule, type Schedule, type ScheduleOptions } from "./schedule.ts";
import { linspace } from "./shift.ts";
import type { Levels } from "./steps.ts";
import { unipcOptions } from "./unipc_options.ts";
import { SIGMA_EPSILON, unipc, type UnipcOptions } from "./unipc_steps.ts";

/** Timesteps are whole numbers, cut off after multiplying, as the reference casts them. */
abstract class MultistepScheduler extends FlowScheduler {
  constructor(config: SchedulerConfig, unsupported: readonly string[]) {
    const spacings = ["use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"];
    refuseFields(config, ["thresholding", ...spacings, ...unsupported]);
    choiceField<string>(config, "prediction_type", ["flow_prediction"], "epsilon");
    requireField(config, "use_flow_sigmas", true, false);
    super(config, "flow_shift");
  }

  protected levelsOf(shifted: readonly number[], last: number): Levels {
    return {
      timesteps: Float64Array.from(shifted, (sigma) => Math.trunc(sigma * this.trainTimesteps)),
      sigmas: Float64Array.from([...shifted, last], Math.fround),
    };
  }
}

export class UniPcScheduler extends MultistepScheduler {
  readonly own = { sampler: "uni_pc" } as const;
  readonly #solver: UnipcOptions;
  readonly #finalSigmas: "zero" | "sigma_min";

  constructor(config: SchedulerConfig) {
    super(config, []);
    this.#solver = unipcOptions(config);
    this.#finalSigmas = choiceField(config, "final_sigmas_type", ["zero", "sigma_min"], "zero");
  }

  protected levels(count: number, options: ScheduleOptions): Levels {
    const sigmas = this.shifted(
      count,
      options,
      () => linspace(1, 1 / this.trainTimesteps, count + 1).slice(0, -1),
    );
    if (Math.abs(sigmas[0]! - 1) < SIGMA_EPSILON) sigmas[0]! -= SIGMA_EPSILON;
    return this.levelsOf(sigmas, this.#finalSigmas === "zero" ? 0 : sigmas.at(-1)!);
  }

  /** The solver begins at `start` without history, as the reference does. */
  protected override schedule(sampler: SamplerName, levels: Levels, start: number): Schedule {
    return sampler === "uni_pc"
      ? fixedSchedule(this.process, unipc(levels, this.process, this.#solver, start))
      : super.schedule(sampler, levels, start);
  }
}

/** diffusers' `DPMSolverMultistepScheduler` for flow prediction: second order, by the midpoint. */
export class DpmSolverScheduler extends MultistepScheduler {
  readonly own = { sampler: "dpmpp_2m" } as const;

  constructor(config: SchedulerConfig) {
    super(config, ["use_lu_lambdas", "euler_at_final"]);
    choiceField(config, "algorithm_type", ["dpmsolver++"], "dpmsolver++");
    choiceField(config, "solver_type", ["midpoint"], "midpoint");
    choiceField(config, "final_sigmas_type", ["zero"], "zero");
    boundedField(config, "solver_order", 2, 2, 2);
  }

  protected levels(count: number, options: ScheduleOptions): Levels {
    // From just below 1: the reference leaves out the other end, which is 0.
    const own = () =>
      linspace(1, 1 / this.trainTimesteps, count + 1).slice(1).map((alpha) => 1 - alpha).reverse();
    return this.levelsOf(this.shifted(count, options, own), 0);
  }
}
