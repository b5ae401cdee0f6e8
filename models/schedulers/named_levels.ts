/**
 * Levels by the names of requests, for diffusion models: they span the whole of the training's table, whatever the model's
 * configuration says. Sources: ComfyUI's `comfy/samplers.py`; k-diffusion.
 */
import { alignedLevels, type AlignedModel } from "./aligned_steps.ts";
import type { NoiseScheduleName } from "./names.ts";
import type { NoiseTable } from "./noise_table.ts";
import { betaQuantile, redistributed } from "./redistribution.ts";
import { linspace } from "./shift.ts";
import { roundHalfEven } from "./spacing.ts";

interface Table {
  readonly table: NoiseTable;
  readonly aligned?: AlignedModel | undefined;
}

const LEVELS: Readonly<Record<NoiseScheduleName, (model: Table, count: number) => number[]>> = {
  normal: ({ table }, count) => levelsAt(table, linspace(table.length - 1, 0, count)),
  simple({ table: { sigmas, length } }, count) {
    return indices(count).map((i) => sigmas[length - 1 - Math.trunc(i * length / count)]!);
  },
  sgm_uniform: ({ table }, count) =>
    levelsAt(table, linspace(table.length - 1, 0, count + 1).slice(0, -1)),
  // Every so many, which may be one step more.
  ddim_uniform({ table: { sigmas, length } }, count) {
    const step = Math.max(Math.floor(length / count), 1);
    return Array.from(sigmas).filter((_, i) => i > 0 && (i - 1) % step === 0).reverse();
  },
  karras: ends("karras"),
  exponential: ends("exponential"),
  beta({ table: { sigmas, length } }, count) {
    const timesteps = indices(count)
      .map((i) => roundHalfEven(betaQuantile(1 - i / count) * (length - 1)));
    return [...new Set(timesteps)].map((timestep) => sigmas[timestep]!);
  },
  kl_optimal: ends("kl_optimal"),
  align_your_steps: ({ aligned }, count) => alignedLevels(aligned, count),
};

/** Levels and a last 0; `ddim_uniform` may have one more than `count`, and `beta` of hundreds of steps fewer. */
export function namedLevels(name: NoiseScheduleName, model: Table, count: number): number[] {
  return [...LEVELS[name](model, count), 0];
}

function indices(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}

function levelsAt(table: NoiseTable, timesteps: readonly number[]): number[] {
  return timesteps.map((timestep) => table.sigma(timestep, true));
}

function ends(
  name: Parameters<typeof redistributed>[0],
): (model: Table, count: number) => number[] {
  return ({ table: { sigmas } }, count) => redistributed(name, sigmas.at(-1)!, sigmas[0]!, count);
}
