/**
 * Levels by the names of requests, for diffusion models: they span the whole of the training's table, whatever the model's
 * configuration says. Sources: ComfyUI's `comfy/samplers.py`; k-diffusion; Sabour et al. 2024, "Align Your Steps".
 */
import type { NoiseScheduleName } from "./names.ts";
import type { NoiseTable } from "./noise_table.ts";
import { betaQuantile, isRedistribution, redistributed } from "./redistribution.ts";
import { linspace } from "./shift.ts";
import { roundHalfEven } from "./spacing.ts";

/** `count` levels and a last 0; `ddim_uniform` may have more, and `beta` of hundreds of steps fewer. */
export function namedLevels(name: NoiseScheduleName, table: NoiseTable, count: number): number[] {
  const { sigmas, length } = table;
  const [first, last] = [sigmas[length - 1]!, sigmas[0]!];
  const indices = Array.from({ length: count }, (_, i) => i);
  const at = (timesteps: readonly number[]) => timesteps.map((t) => table.sigma(t, true));
  const levels = (): number[] => {
    if (name === "beta") {
      const timesteps = indices.map((i) =>
        roundHalfEven(betaQuantile(1 - i / count) * (length - 1))
      );
      return [...new Set(timesteps)].map((timestep) => sigmas[timestep]!);
    }
    if (isRedistribution(name)) return redistributed(name, first, last, count);
    if (name === "sgm_uniform") return at(linspace(length - 1, 0, count + 1).slice(0, -1));
    return indices.map((i) => sigmas[length - 1 - Math.trunc(i * length / count)]!);
  };
  return [...levels(), 0];
}
