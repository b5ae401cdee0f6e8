/** The levels that the classes of diffusers visit, by their configuration. */
import { booleanField, boundedField, choiceField, type SchedulerConfig } from "./config.ts";
import type { NoiseTable } from "./noise_table.ts";
import { type Process, spread } from "./process.ts";
import { redistributed, type Redistribution } from "./redistribution.ts";
import { linspace } from "./shift.ts";
import { roundHalfEven, spacedTimesteps, spacingOf } from "./spacing.ts";
import type { Levels } from "./steps.ts";

/** What a diffusion model's schedules follow from. */
export interface DiffusionModel {
  readonly config: SchedulerConfig;
  readonly table: NoiseTable;
  readonly process: Process;
}

/** Levels, and what noise is multiplied by that a run begins with. */
export interface StartedLevels extends Levels {
  readonly noiseScale: number;
}

const REDISTRIBUTED: readonly (readonly [key: string, name: Redistribution])[] = [
  ["use_karras_sigmas", "karras"],
  ["use_exponential_sigmas", "exponential"],
  ["use_beta_sigmas", "beta"],
];

const WHOLE = { fallback: "leading", whole: true } as const;
const BETWEEN = { fallback: "linspace", whole: false } as const;
const WITHOUT_LAST = { fallback: "linspace", whole: true, dropsLast: true } as const;

/** EulerAncestralDiscreteScheduler: σ is interpolated at timesteps that need not be whole. */
export function spacedLevels({ config, table }: DiffusionModel, count: number): StartedLevels {
  const timesteps = spacedTimesteps(config, BETWEEN, table.length, count);
  const sigmas = [...timesteps.map((timestep) => table.sigma(timestep)), 0];
  return startedLevels(config, timesteps, sigmas);
}

/** HeunDiscreteScheduler, LMSDiscreteScheduler and their like, which may redistribute the levels between these two ends. */
export function redistributedLevels(model: DiffusionModel, count: number): StartedLevels {
  const spaced = spacedLevels(model, count);
  const ends = [spaced.sigmas[0]!, spaced.sigmas[count - 1]!] as const;
  return redistributedBetween(model, ends, count, 0) ?? spaced;
}

/** EulerDiscreteScheduler, which has more to choose. */
export function eulerLevels(model: DiffusionModel, count: number): StartedLevels {
  const { config, table } = model;
  const choices = ["linear", "log_linear"] as const;
  const isLinear = choiceField(config, "interpolation_type", choices, "linear") === "linear";
  const { timesteps, sigmas } = spacedLevels(model, count);
  const last = finalSigma(config, table);
  const highest = table.sigmas.at(-1)!;
  const spaced = isLinear
    ? [...sigmas.slice(0, -1), last]
    // One level more than timesteps: the run ends above 0, as in the reference.
    : linspace(Math.log(highest), Math.log(table.sigmas[0]!), count + 1).map(Math.exp);
  const lowest = spaced.at(isLinear ? -2 : -1)!;
  const top = boundedField(config, "sigma_max", spaced[0]!, 0, Infinity);
  const ends = [top, boundedField(config, "sigma_min", lowest, 0, top)] as const;
  return redistributedBetween(model, ends, count, last) ??
    startedLevels(config, [...timesteps], spaced);
}

/** KDPM2DiscreteScheduler and KDPM2AncestralDiscreteScheduler, which round the timesteps of Karras's levels. */
export function kdpm2Levels(model: DiffusionModel, count: number): StartedLevels {
  const levels = redistributedLevels(model, count);
  const isRounded = redistribution(model.config) === "karras";
  return isRounded ? { ...levels, timesteps: levels.timesteps.map(roundHalfEven) } : levels;
}

/**
 * DPMSolverMultistepScheduler and UniPCMultistepScheduler: of one timestep more the last is dropped, and levels are
 * redistributed over the whole table.
 */
export function multistepLevels(
  model: DiffusionModel,
  count: number,
  last = finalSigma(model.config, model.table),
): StartedLevels {
  const { config, table } = model;
  const ends = [table.sigmas.at(-1)!, table.sigmas[0]!] as const;
  const redistributed = redistributedBetween(model, ends, count, last);
  const timesteps = redistributed
    ? wholeTimesteps(config, redistributed.timesteps)
    : spacedTimesteps(config, WITHOUT_LAST, table.length, count);
  const sigmas = redistributed?.sigmas ??
    [...timesteps.map((timestep) => table.sigma(timestep)), last];
  return { ...startedLevels(config, timesteps, sigmas), noiseScale: spread(sigmas[0]!) };
}

/** DEISMultistepScheduler, whose runs end at the lowest level. */
export function deisLevels(model: DiffusionModel, count: number): StartedLevels {
  return multistepLevels(model, count, model.table.sigmas[0]!);
}

/** DDPMScheduler. */
export function ddpmLevels({ config, table }: DiffusionModel, count: number): StartedLevels {
  choiceField(config, "variance_type", ["fixed_small"], "fixed_small");
  const timesteps = spacedTimesteps(config, WHOLE, table.length, count);
  const sigmas = [...timesteps.map((timestep) => table.sigmaWithoutFloor(timestep)), 0];
  return { ...startedLevels(config, timesteps, sigmas), noiseScale: spread(sigmas[0]!) };
}

/** The reference rounds those of Karras and cuts off the others. */
function wholeTimesteps(config: SchedulerConfig, timesteps: Float64Array): number[] {
  const isRounded = redistribution(config) === "karras" &&
    config["beta_schedule"] !== "squaredcos_cap_v2";
  return Array.from(timesteps, isRounded ? roundHalfEven : Math.trunc);
}

function redistributedBetween(
  { config, table }: DiffusionModel,
  [first, last]: readonly [number, number],
  count: number,
  end: number,
): StartedLevels | undefined {
  const name = redistribution(config);
  if (name === undefined) return undefined;
  const sigmas = redistributed(name, first, last, count);
  return startedLevels(config, sigmas.map((sigma) => table.timestep(sigma)), [...sigmas, end]);
}

function startedLevels(
  config: SchedulerConfig,
  timesteps: ArrayLike<number>,
  sigmas: ArrayLike<number>,
): StartedLevels {
  const isLeading = spacingOf(config, BETWEEN) === "leading";
  return {
    timesteps: Float64Array.from(timesteps, Math.fround),
    sigmas: Float64Array.from(sigmas),
    noiseScale: isLeading ? spread(sigmas[0]!) : sigmas[0]!,
  };
}

function redistribution(config: SchedulerConfig): Redistribution | undefined {
  const chosen = REDISTRIBUTED.filter(([key]) => booleanField(config, key, false));
  if (chosen.length < 2) return chosen[0]?.[1];
  throw new TypeError(
    `Cannot use the scheduler's ${chosen.map(([key]) => key).join(" and ")}: only one may be true`,
  );
}

function finalSigma(config: SchedulerConfig, { sigmas }: NoiseTable): number {
  const type = choiceField(config, "final_sigmas_type", ["zero", "sigma_min"], "zero");
  return type === "zero" ? 0 : sigmas[0]!;
}
