/**
 * Latent consistency models and trajectory consistency distillation, on timesteps of their training. Sources: Luo et al. 2023,
 * "Latent Consistency Models"; Zheng et al. 2024, "Trajectory Consistency Distillation"; diffusers' LCMScheduler, TCDScheduler.
 */
import { boundedField, numberField } from "./config.ts";
import type { StartedSteps } from "./ddim_steps.ts";
import type { DiffusionModel } from "./diffusion_levels.ts";
import { spread } from "./process.ts";
import type { StepCoefficients, Term } from "./schedule.ts";
import { denoised, slope, times, withSample } from "./steps.ts";
import { SettingError } from "../setting_error.ts";

/** σ of the data, in units of `timestep_scaling`. */
const SIGMA_DATA = 0.5;

/** Share of the next timestep by which TCD goes below it. */
const TCD_ETA = 0.3;

/** x ← D, by the boundary condition that leaves a sample without noise as it is, and fresh noise. */
export function lcmOfDiffusion(model: DiffusionModel, count: number, start: number): StartedSteps {
  const { config, process } = model;
  const scaling = numberField(config, "timestep_scaling", 10);
  return consistency(model, count, start, (timestep, sigma, next) => {
    const time = timestep * scaling;
    const whole = time ** 2 + SIGMA_DATA ** 2;
    const kept = SIGMA_DATA ** 2 / whole / spread(sigma);
    const terms = withSample(kept, denoised(process, sigma, time / Math.sqrt(whole)));
    return [{ target: "sample", terms: [...terms, ...noise(next)] }];
  });
}

/** Down to a timestep below the next one, and up with fresh noise. */
export function tcd(model: DiffusionModel, count: number, start: number): StartedSteps {
  const { table, process } = model;
  return consistency(model, count, start, (_, sigma, next, nextTimestep) => {
    const down = table.sigmas[Math.floor((1 - TCD_ETA) * nextTimestep)]!;
    const moved = withSample(1, slope(process, sigma, down - sigma));
    // The latents are taken as those of unit variance at the lowest level.
    if (next === 0) return [{ target: "sample", terms: times(1 / spread(down), moved) }];
    return [{ target: "sample", terms: [...moved, ...noise(Math.sqrt(next ** 2 - down ** 2))] }];
  });
}

function noise(scale: number): Term[] {
  return scale > 0 ? [{ tensor: "noise", scale }] : [];
}

function consistency(
  { config, table }: DiffusionModel,
  count: number,
  start: number,
  step: (
    timestep: number,
    sigma: number,
    next: number,
    nextTimestep: number,
  ) => StepCoefficients,
): StartedSteps {
  const grid = boundedField(config, "original_inference_steps", 50, 1, table.length);
  if (count > grid) {
    throw new SettingError(
      "numInferenceSteps",
      `Cannot make a schedule of ${count} steps: the model was distilled for ${grid} at most`,
    );
  }
  const apart = Math.floor(table.length / grid);
  const timesteps = Array.from(
    { length: count },
    (_, i) => (grid - Math.floor(i * grid / count)) * apart - 1,
  ).slice(start);
  const sigmas = [...timesteps.map((timestep) => table.sigmaWithoutFloor(timestep)), 0];
  return {
    timesteps: Float64Array.from(timesteps),
    sigmas: Float64Array.from(sigmas),
    noiseScale: spread(sigmas[0]!),
    history: 0,
    steps: timesteps.map((timestep, i) =>
      step(timestep, sigmas[i]!, sigmas[i + 1]!, timesteps[i + 1] ?? 0)
    ),
  };
}
