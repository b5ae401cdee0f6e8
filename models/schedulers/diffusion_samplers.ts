/** Samplers of diffusion models: on the levels of their class in diffusers, and on levels that a request chooses. */
import { booleanField, choiceField, numberField, type SchedulerConfig } from "./config.ts";
import { lcmOfDiffusion, tcd } from "./consistency_steps.ts";
import { ddim, pndm, type StartedSteps } from "./ddim_steps.ts";
import {
  ddpmLevels,
  deisLevels,
  type DiffusionModel,
  eulerLevels,
  kdpm2Levels,
  multistepLevels,
  redistributedLevels,
  spacedLevels,
  type StartedLevels,
} from "./diffusion_levels.ts";
import {
  type DpmOptions,
  dpmpp,
  dpmpp2mSde,
  dpmpp3mSde,
  dpmppSinglestep,
  singlestepOrders,
} from "./dpm_steps.ts";
import { euler, eulerAncestral, heun, lcm } from "./euler_steps.ts";
import { deis, type DeisOptions, erSde, lms, resMultistep } from "./multistep_steps.ts";
import type { SamplerName } from "./names.ts";
import { type Process, spread } from "./process.ts";
import type { StepCoefficients } from "./schedule.ts";
import { type Levels, type Sampler, times } from "./steps.ts";
import { dpm2, dpm2Ancestral, dpmpp2sAncestral, dpmppSde } from "./two_stage_steps.ts";
import { unipc } from "./unipc_steps.ts";
import { unipcOptions } from "./unipc_options.ts";

interface DiffusionSteps {
  /** As the class of diffusers that has this sampler, from the step `start` on. */
  own(model: DiffusionModel, count: number, start: number): StartedSteps;
  /** On other levels; absent where the sampler has its own alone. */
  readonly given?: Sampler;
  /** Whether the noise is of a Brownian path, as in k-diffusion: only on other levels where the class of diffusers draws it. */
  readonly brownian?: "always" | "given";
}

export const DIFFUSION_STEPS: Readonly<Partial<Record<SamplerName, DiffusionSteps>>> = {
  euler: onLevels(eulerLevels, euler),
  euler_ancestral: onLevels(spacedLevels, eulerAncestral),
  heun: onLevels(redistributedLevels, heun),
  dpm_2: onLevels(kdpm2Levels, dpm2),
  dpm_2_ancestral: onLevels(kdpm2Levels, dpm2Ancestral),
  lms: onLevels(redistributedLevels, lms),
  dpmpp_2s: { own: singlestep, given: (levels, process) => dpmppSinglestep(levels, process) },
  dpmpp_2s_ancestral: onLevels(redistributedLevels, dpmpp2sAncestral),
  dpmpp_2m: { own: dpmSolver(0), given: (levels, process) => dpmpp(levels, process) },
  dpmpp_2m_sde: { own: dpmSolver(1), given: dpmpp2mSde, brownian: "given" },
  dpmpp_sde: { ...onLevels(redistributedLevels, dpmppSde), brownian: "always" },
  dpmpp_3m_sde: { ...onLevels(multistepLevels, dpmpp3mSde), brownian: "always" },
  ddim: { own: ddim, given: euler },
  // The posterior of DDPM in k-space is Euler's ancestral step.
  ddpm: onLevels(ddpmLevels, eulerAncestral),
  pndm: { own: pndm },
  uni_pc: {
    own(model, count, start) {
      const options = unipcOptions(model.config);
      const steps = (levels: Levels) => unipc(levels, model.process, options, start);
      return ofUnitVariance(begun(multistepLevels(model, count), start, steps, model.process));
    },
    given: (levels, process) => unipc(levels, process),
  },
  deis: {
    own(model, count, start) {
      const options = deisOptions(model.config, count);
      const steps = (levels: Levels) => deis(levels, model.process, options);
      return ofUnitVariance(begun(deisLevels(model, count), start, steps, model.process));
    },
    given: (levels, process) => deis(levels, process),
  },
  lcm: { own: lcmOfDiffusion, given: lcm },
  tcd: { own: tcd },
  er_sde: onLevels(spacedLevels, erSde),
  res_multistep: onLevels(spacedLevels, resMultistep),
};

function onLevels(
  levels: (model: DiffusionModel, count: number) => StartedLevels,
  sampler: Sampler,
): DiffusionSteps {
  return {
    own: (model, count, start) => begun(levels(model, count), start, sampler, model.process),
    given: sampler,
  };
}

export function begun(
  { timesteps, sigmas, noiseScale }: StartedLevels,
  start: number,
  sampler: Sampler,
  process: Process,
): StartedSteps {
  // Some levels with a name are fewer than the steps asked for.
  const first = Math.min(start, timesteps.length - 1);
  const levels = { timesteps: timesteps.slice(first), sigmas: sigmas.slice(first) };
  return { ...sampler(levels, process), noiseScale };
}

/** `DPMSolverMultistepScheduler`, without noise or with it. */
function dpmSolver(eta: 0 | 1): DiffusionSteps["own"] {
  return (model, count, start) => {
    const options = { ...dpmOptions(model.config, count, eta), eta };
    const steps = (levels: Levels) => dpmpp(levels, model.process, options);
    return ofUnitVariance(begun(multistepLevels(model, count), start, steps, model.process));
  };
}

/** `DPMSolverSinglestepScheduler`, which knows one spacing; its orders are those of the whole schedule. */
function singlestep(
  { config, ...model }: DiffusionModel,
  count: number,
  start: number,
): StartedSteps {
  const own = { ...model, config: { ...config, timestep_spacing: "linspace" } };
  const { order = 2, solver } = dpmOptions(config, count, 1);
  const orders = singlestepOrders(count, order).slice(start);
  const steps = (levels: Levels) => dpmppSinglestep(levels, model.process, orders, solver);
  return ofUnitVariance(begun(multistepLevels(own, count), start, steps, model.process));
}

export function dpmOptions(
  config: SchedulerConfig,
  count: number,
  eta: 0 | 1,
): Partial<DpmOptions> {
  // The reference reads the names of other solvers as `midpoint`.
  const types = ["midpoint", "heun", "logrho", "bh1", "bh2"] as const;
  const solver = choiceField(config, "solver_type", types, "midpoint");
  return {
    order: orderOf(config, eta ? 2 : 3),
    solver: solver === "heun" ? "heun" : "midpoint",
    lowersLast: booleanField(config, "lower_order_final", true) && count < 15,
    lastIsEuler: booleanField(config, "euler_at_final", false),
  };
}

/** A configuration of another class may ask for more. */
function orderOf(config: SchedulerConfig, most: number): number {
  return Math.min(numberField(config, "solver_order", 2), most);
}

function deisOptions(config: SchedulerConfig, count: number): DeisOptions {
  return {
    order: orderOf(config, 3),
    lowersLast: booleanField(config, "lower_order_final", true) && count < 15,
  };
}

/** The class of the reference keeps samples of unit variance, and gives them so where a run ends above 0. */
function ofUnitVariance(run: StartedSteps): StartedSteps {
  const last = run.sigmas.at(-1)!;
  const steps = run.steps.map((step, i): StepCoefficients =>
    i < run.steps.length - 1 ? step : step.map(({ target, terms }, k) => ({
      target,
      terms: k === step.length - 1 ? times(1 / spread(last), terms) : terms,
    }))
  );
  return { ...run, steps, sigmas: Float64Array.of(...run.sigmas.slice(0, -1), 0) };
}
