/** The levels that the classes of diffusers visit, by their configuration. */
import { booleanField, boundedField, choiceField, type SchedulerConfig } from "./config.ts";
import type { NoiseTable } from "./noise_table.ts";
import { type Process, spread } from "./process.ts";
import { redistributed, type Redistribution } from "./redistribution.ts";
import { linspace } from "./shift.ts";
import { spacedTimesteps, spacingOf } from "./spacing.ts";
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

const EULER_SPACING = { fallback: "linspace", whole: false } as const;

/** EulerDiscreteScheduler and its like: σ is interpolated at timesteps that need not be whole. */
export function eulerLevels({ config, table }: DiffusionModel, count: number): StartedLevels {
  const timesteps = spacedTimesteps(config, EULER_SPACING, table.length, count);
  const interpolation = choiceField(
    config,
    "interpolation_type",
    ["linear", "log_linear"],
    "linear",
  );
  const ends = [table.sigmas.at(-1)!, table.sigmas[0]!] as const;
  const name = redistribution(config);
  const last = finalSigma(config, table);
  const spaced = interpolation === "linear"
    ? [...timesteps.map((timestep) => table.sigma(timestep)), last]
    // One level more than timesteps: the run ends above 0, as in the reference.
    : linspace(Math.log(ends[0]), Math.log(ends[1]), count + 1).map(Math.exp);
  const isWhole = spacingOf(config, EULER_SPACING) === "leading";
  const sigmas = name === undefined
    ? spaced
    : [...redistributedIn(config, name, spaced[0]!, lastOf(interpolation, spaced), count), last];
  return {
    timesteps: Float64Array.from(
      name === undefined ? timesteps : sigmas.slice(0, -1).map((sigma) => table.timestep(sigma)),
      Math.fround,
    ),
    sigmas: Float64Array.from(sigmas),
    noiseScale: isWhole ? spread(sigmas[0]!) : sigmas[0]!,
  };
}

function lastOf(interpolation: "linear" | "log_linear", spaced: readonly number[]): number {
  return spaced.at(interpolation === "linear" ? -2 : -1)!;
}

function redistributedIn(
  config: SchedulerConfig,
  name: Redistribution,
  first: number,
  last: number,
  count: number,
): number[] {
  const highest = boundedField(config, "sigma_max", first, 0, Infinity);
  const lowest = boundedField(config, "sigma_min", last, 0, highest);
  return redistributed(name, highest, lowest, count);
}

export function redistribution(config: SchedulerConfig): Redistribution | undefined {
  const chosen = REDISTRIBUTED.filter(([key]) => booleanField(config, key, false));
  if (chosen.length < 2) return chosen[0]?.[1];
  throw new TypeError(
    `Cannot use the scheduler's ${chosen.map(([key]) => key).join(" and ")}: only one may be true`,
  );
}

export function finalSigma(config: SchedulerConfig, { sigmas }: NoiseTable): number {
  const type = choiceField(config, "final_sigmas_type", ["zero", "sigma_min"], "zero");
  return type === "zero" ? 0 : sigmas[0]!;
}
