/** What a request to a diffusion model chooses of the sampling. */
import type { DiffusionModel, StartedLevels } from "./diffusion_levels.ts";
import { namedLevels } from "./named_levels.ts";
import { OWN_SIGMAS, type SamplerName } from "./names.ts";
import { spread } from "./process.ts";
import type { ScheduleOptions } from "./schedule.ts";
import { SettingError } from "../setting_error.ts";

/** Samplers for which ComfyUI takes one level more and drops the one before 0. */
const SKIPS_LAST_LEVEL: readonly SamplerName[] = ["dpm_2", "dpm_2_ancestral", "uni_pc"];

/** The sampler of a request to a model whose own is `own`. */
export function samplerOf(
  own: SamplerName,
  { sampler, scheduler, sigmas, shift }: ScheduleOptions,
): SamplerName {
  if (shift !== undefined) {
    throw new SettingError(
      "flowShift",
      `Cannot make a schedule with shift ${shift}: only rectified flows have a shift; omit it`,
    );
  }
  if (sampler !== undefined) return sampler;
  return (scheduler ?? sigmas) === undefined ? own : OWN_SIGMAS.get(own) ?? own;
}

export function chosenLevels(
  { table, process }: DiffusionModel,
  count: number,
  sampler: SamplerName,
  { scheduler, sigmas, aligned }: ScheduleOptions,
): StartedLevels | undefined {
  if (scheduler === undefined && sigmas === undefined) return undefined;
  const skips = SKIPS_LAST_LEVEL.includes(sampler);
  const levels = scheduler === undefined
    ? [...sigmas!, 0]
    : namedLevels(scheduler, { table, aligned }, skips ? count + 1 : count)
      .filter((_, i, { length }) => !skips || i !== length - 2);
  const [first] = levels as [number];
  // As ComfyUI does: a run from the highest level of the training begins with noise alone, of unit variance once scaled.
  const isWhole = first >= table.sigmas.at(-1)! * (1 - 1e-5);
  return {
    timesteps: Float64Array.from(levels.slice(0, -1), process.timestep),
    sigmas: Float64Array.from(levels),
    noiseScale: isWhole ? spread(first) : first,
  };
}
