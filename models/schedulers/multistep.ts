/**
 * Multistep solvers as a model's configuration asks for them: their noise levels, and what it says of the solver.
 * diffusers made them for diffusion; they are used for flow.
 */
import {
  booleanField,
  boundedField,
  choiceField,
  refuseFields,
  type SchedulerConfig,
} from "./config.ts";
import { FlowScheduler } from "./noise_levels.ts";
import type { Levels } from "./samplers.ts";
import type { ScheduleOptions } from "./schedule.ts";
import { linspace } from "./shift.ts";
import { SIGMA_EPSILON } from "./unipc_steps.ts";

/** Solvers of order 2. Timesteps are whole numbers, cut off after multiplying, as the reference casts them. */
abstract class MultistepScheduler extends FlowScheduler {
  constructor(config: SchedulerConfig, unsupported: readonly string[]) {
    const spacings = ["use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"];
    refuseFields(config, ["thresholding", ...spacings, ...unsupported]);
    choiceField<string>(config, "prediction_type", ["flow_prediction"], "epsilon");
    choiceField(config, "final_sigmas_type", ["zero"], "zero");
    boundedField(config, "solver_order", 2, 2, 2);
    requireTrue(config, "use_flow_sigmas", false);
    super(config, "flow_shift");
  }

  protected levelsOf(shifted: readonly number[]): Levels {
    return {
      timesteps: Float64Array.from(shifted, (sigma) => Math.trunc(sigma * this.trainTimesteps)),
      sigmas: Float64Array.from([...shifted, 0], Math.fround),
    };
  }
}

/** diffusers' `UniPCMultistepScheduler` for flow prediction. */
export class UniPcScheduler extends MultistepScheduler {
  readonly own = { sampler: "uni_pc" } as const;

  constructor(config: SchedulerConfig) {
    super(config, ["solver_p", "disable_corrector"]);
    requireTrue(config, "predict_x0", true);
    requireTrue(config, "lower_order_final", true);
    // The reference reads the names of older solvers as `bh2`.
    choiceField(config, "solver_type", ["bh2", "midpoint", "heun", "logrho"], "bh2");
  }

  protected levels(count: number, options: ScheduleOptions): Levels {
    const own = () => linspace(1, 1 / this.trainTimesteps, count + 1).slice(0, -1);
    const sigmas = this.shifted(count, options, own);
    if (Math.abs(sigmas[0]! - 1) < SIGMA_EPSILON) sigmas[0]! -= SIGMA_EPSILON;
    return this.levelsOf(sigmas);
  }
}

/** diffusers' `DPMSolverMultistepScheduler` for flow prediction: by the midpoint. */
export class DpmSolverScheduler extends MultistepScheduler {
  readonly own = { sampler: "dpmpp_2m" } as const;

  constructor(config: SchedulerConfig) {
    super(config, ["use_lu_lambdas", "euler_at_final"]);
    choiceField(config, "algorithm_type", ["dpmsolver++"], "dpmsolver++");
    choiceField(config, "solver_type", ["midpoint"], "midpoint");
  }

  protected levels(count: number, options: ScheduleOptions): Levels {
    // From just below 1: the reference leaves out the other end, which is 0.
    const own = () =>
      linspace(1, 1 / this.trainTimesteps, count + 1).slice(1).map((alpha) => 1 - alpha).reverse();
    return this.levelsOf(this.shifted(count, options, own));
  }
}

function requireTrue(config: SchedulerConfig, key: string, fallback: boolean): void {
  if (booleanField(config, key, fallback)) return;
  throw new TypeError(`Cannot use the scheduler's ${key} false: only true is supported`);
}
