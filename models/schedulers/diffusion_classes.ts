/** The classes of diffusers for diffusion models: the sampler of each, and what of its configuration is not supported. */
import {
  boundedField,
  choiceField,
  refuseFields,
  requireField,
  type SchedulerConfig,
} from "./config.ts";
import type { SamplerName } from "./names.ts";
import type { BetaRange } from "./noise_table.ts";

interface DiffusionClass {
  readonly sampler: SamplerName | ((config: SchedulerConfig) => SamplerName);
  readonly betas: BetaRange;
  readonly check?: (config: SchedulerConfig) => void;
}

/** Where a configuration has no betas of its own. */
const BETAS = { start: 0.0001, end: 0.02, schedule: "linear" } as const;
const LATENT_BETAS = { start: 0.00085, end: 0.012, schedule: "linear" } as const;
const DISTILLED_BETAS = { start: 0.00085, end: 0.012, schedule: "scaled_linear" } as const;

const NO_SAMPLE = ["epsilon", "v_prediction"] as const;

function requireNoClipping(fallback: boolean): (config: SchedulerConfig) => void {
  return (config) => requireField(config, "clip_sample", false, fallback);
}

export function requireOrder(config: SchedulerConfig, most: number): void {
  const order = boundedField(config, "solver_order", 2, 1, most);
  if (Number.isSafeInteger(order)) return;
  throw new TypeError(
    `Cannot use the scheduler's solver_order ${order}: it must be a whole number`,
  );
}

function requireNoSample(config: SchedulerConfig): void {
  choiceField(config, "prediction_type", NO_SAMPLE, "epsilon");
}

export const DIFFUSION_CLASSES: Readonly<Record<string, DiffusionClass>> = {
  DDIMScheduler: { sampler: "ddim", betas: BETAS, check: requireNoClipping(true) },
  DDPMScheduler: { sampler: "ddpm", betas: BETAS, check: requireNoClipping(true) },
  DEISMultistepScheduler: {
    sampler: "deis",
    betas: BETAS,
    check(config) {
      // The reference reads the names of other algorithms and solvers as its own.
      choiceField(config, "algorithm_type", ["deis", "dpmsolver", "dpmsolver++"], "deis");
      choiceField(config, "solver_type", ["logrho", "midpoint", "heun", "bh1", "bh2"], "logrho");
      requireOrder(config, 3);
    },
  },
  DPMSolverMultistepScheduler: {
    sampler(config) {
      const types = ["dpmsolver++", "sde-dpmsolver++", "deis"] as const;
      const type = choiceField(config, "algorithm_type", types, "dpmsolver++");
      return type === "sde-dpmsolver++" ? "dpmpp_2m_sde" : "dpmpp_2m";
    },
    betas: BETAS,
    check(config) {
      refuseFields(config, ["use_lu_lambdas", "lambda_min_clipped"]);
      requireOrder(config, config["algorithm_type"] === "sde-dpmsolver++" ? 2 : 3);
    },
  },
  DPMSolverSinglestepScheduler: {
    sampler: "dpmpp_2s",
    betas: BETAS,
    check(config) {
      choiceField(config, "algorithm_type", ["dpmsolver++", "deis"], "dpmsolver++");
      refuseFields(config, ["lambda_min_clipped", "use_flow_sigmas"]);
      requireOrder(config, 2);
    },
  },
  DPMSolverSDEScheduler: { sampler: "dpmpp_sde", betas: LATENT_BETAS, check: requireNoSample },
  EulerAncestralDiscreteScheduler: { sampler: "euler_ancestral", betas: BETAS },
  EulerDiscreteScheduler: {
    sampler: "euler",
    betas: BETAS,
    check: (config) => choiceField(config, "timestep_type", ["discrete"], "discrete"),
  },
  HeunDiscreteScheduler: { sampler: "heun", betas: LATENT_BETAS, check: requireNoClipping(false) },
  KDPM2AncestralDiscreteScheduler: {
    sampler: "dpm_2_ancestral",
    betas: LATENT_BETAS,
    check: requireNoSample,
  },
  KDPM2DiscreteScheduler: { sampler: "dpm_2", betas: LATENT_BETAS, check: requireNoSample },
  LCMScheduler: { sampler: "lcm", betas: DISTILLED_BETAS, check: requireNoClipping(false) },
  LMSDiscreteScheduler: { sampler: "lms", betas: BETAS },
  PNDMScheduler: {
    sampler: "pndm",
    betas: BETAS,
    check(config) {
      requireField(config, "skip_prk_steps", true, false);
      requireNoSample(config);
    },
  },
  TCDScheduler: { sampler: "tcd", betas: DISTILLED_BETAS, check: requireNoClipping(false) },
  UniPCMultistepScheduler: { sampler: "uni_pc", betas: BETAS },
};
