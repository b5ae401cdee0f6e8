/** Samplers that follow the slope (x − D)/σ: one call of the network a step, or two. */
import type { Process } from "./process.ts";
import type { StepCoefficients, Term } from "./schedule.ts";
import {
  ancestral,
  denoised,
  type Levels,
  slope,
  type Steps,
  stepwise,
  withSample,
} from "./steps.ts";

/** x ← x + (σ' − σ)·(x − D)/σ. Source: diffusers' EulerDiscreteScheduler and FlowMatchEulerDiscreteScheduler. */
export const euler = stepwise(eulerStep);

/** Down to σ↓, up to σ' with fresh noise. Source: ComfyUI's `sample_euler_ancestral` and `_RF` with η = 1. */
export const eulerAncestral = stepwise((process, sigma, next) => {
  const { down, keep, noise } = ancestral(process, sigma, next);
  const moved = withSample(keep, slope(process, sigma, keep * (down - sigma)));
  return [{ target: "sample", terms: [...moved, ...noise] }];
});

/** x ← α'·D + σ'·noise. Source: diffusers' FlowMatchLCMScheduler, and Euler's with `stochastic_sampling`. */
export const lcm = stepwise((process, sigma, next) => [{
  target: "sample",
  terms: [
    ...denoised(process, sigma, process.signal(next)),
    { tensor: "noise", scale: next },
  ],
}]);

/**
 * An Euler step, and again with the mean of both ends' slopes: two steps of the schedule, but for the last one.
 * Source: diffusers' HeunDiscreteScheduler and FlowMatchHeunDiscreteScheduler.
 */
export function heun({ timesteps, sigmas }: Levels, process: Process): Steps {
  const count = timesteps.length;
  const steps = Array.from(timesteps, (_, i): StepCoefficients[] => {
    const [sigma, next] = [sigmas[i]!, sigmas[i + 1]!];
    if (i === count - 1) return [eulerStep(process, sigma, next)];
    const half = (next - sigma) / 2;
    const predict: StepCoefficients = [
      { target: "history0", terms: withSample(1, slope(process, sigma, half)) },
      ...eulerStep(process, sigma, next),
    ];
    const kept: Term = { tensor: "history0", scale: 1 };
    return [predict, [{ target: "sample", terms: [kept, ...slope(process, next, half)] }]];
  });
  const twice = (values: Float64Array) =>
    [...values].flatMap((value, i) => i ? [value, value] : [value]);
  return {
    timesteps: Float64Array.from(twice(timesteps)),
    sigmas: Float64Array.from([...twice(sigmas.slice(0, -1)), sigmas[count]!]),
    history: 1,
    steps: steps.flat(),
  };
}

export function eulerStep(process: Process, sigma: number, next: number): StepCoefficients {
  return [{ target: "sample", terms: withSample(1, slope(process, sigma, next - sigma)) }];
}
