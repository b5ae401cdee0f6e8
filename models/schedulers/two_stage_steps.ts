/**
 * Samplers that call the network twice a step, the second time at a level between: two steps of the schedule, but for the
 * last one, which goes to 0 at once. Sources: k-diffusion's `sample_dpm_2`, `sample_dpm_2_ancestral`,
 * `sample_dpmpp_2s_ancestral` and `sample_dpmpp_sde`, with those for flows of ComfyUI; diffusers' KDPM2DiscreteScheduler,
 * KDPM2AncestralDiscreteScheduler and DPMSolverSDEScheduler.
 */
import { eulerStep } from "./euler_steps.ts";
import { halfLogSnr, type Process } from "./process.ts";
import type { StepCoefficients, Term } from "./schedule.ts";
import { ancestral, denoised, type Levels, slope, type Steps, times, withSample } from "./steps.ts";

interface Stages {
  readonly middle: number;
  readonly first: StepCoefficients;
  readonly second: StepCoefficients;
}

/** Before the first stage the sample is kept in `history0`. */
function twoStages(
  { timesteps, sigmas }: Levels,
  process: Process,
  history: number,
  stagesOf: (sigma: number, next: number) => Stages,
): Steps {
  const steps: StepCoefficients[] = [];
  const visited: [timestep: number, sigma: number][] = [];
  timesteps.forEach((timestep, i) => {
    const [sigma, next] = [sigmas[i]!, sigmas[i + 1]!];
    visited.push([timestep, sigma]);
    if (next === 0) {
      steps.push(eulerStep(process, sigma, next));
      return;
    }
    const { middle, first, second } = stagesOf(sigma, next);
    visited.push([process.timestep(middle), middle]);
    steps.push([{ target: "history0", terms: [{ tensor: "sample", scale: 1 }] }, ...first], second);
  });
  return {
    timesteps: Float64Array.from(visited, ([timestep]) => timestep),
    sigmas: Float64Array.from([...visited.map(([, sigma]) => sigma), sigmas.at(-1)!]),
    history,
    steps,
  };
}

/** The slope at the geometric mean of both levels leads the whole step. */
export function dpm2({ timesteps, sigmas }: Levels, process: Process): Steps {
  return twoStages({ timesteps, sigmas }, process, 1, (sigma, next) => {
    const middle = Math.sqrt(sigma * next);
    return {
      middle,
      first: eulerStep(process, sigma, middle),
      second: [{ target: "sample", terms: [BEGUN, ...slope(process, middle, next - sigma)] }],
    };
  });
}

/** The same down to σ↓, and up to σ' with fresh noise. */
export function dpm2Ancestral(levels: Levels, process: Process): Steps {
  return twoStages(levels, process, 1, (sigma, next) => {
    const { down, keep, noise } = ancestral(process, sigma, next);
    const middle = Math.sqrt(sigma * down);
    const moved = times(keep, [BEGUN, ...slope(process, middle, down - sigma)]);
    return {
      middle,
      first: eulerStep(process, sigma, middle),
      second: [{ target: "sample", terms: [...moved, ...noise] }],
    };
  });
}

/** ComfyUI's level for the middle of a step from a flow's σ = 1, where λ is −∞. */
const HIGHEST_MIDDLE = 0.9999;

/** D at the middle in λ leads the whole step down to σ↓. */
export function dpmpp2sAncestral(levels: Levels, process: Process): Steps {
  return twoStages(levels, process, 1, (sigma, next) => {
    const { down, keep, noise } = ancestral(process, sigma, next);
    const middle = process.signal(sigma) === 0
      ? HIGHEST_MIDDLE
      : process.level((halfLogSnr(process, sigma) + halfLogSnr(process, down)) / 2);
    const share = down / sigma;
    const moved = times(keep, [
      { ...BEGUN, scale: share },
      ...denoised(process, middle, 1 - share),
    ]);
    return {
      middle,
      first: eulerStep(process, sigma, middle),
      second: [{ target: "sample", terms: [...moved, ...noise] }],
    };
  });
}

/**
 * As before, but with fresh noise at the middle too. Both noises are of one Brownian path in σ, so that of the whole step
 * holds that of its first part, which `history1` keeps.
 */
export function dpmppSde(levels: Levels, process: Process): Steps {
  return twoStages(levels, process, 2, (sigma, next) => {
    const middle = process.level((halfLogSnr(process, sigma) + halfLogSnr(process, next)) / 2);
    const [near, far] = [ancestral(process, sigma, middle), ancestral(process, sigma, next)];
    const closer = withSample(
      near.down / sigma,
      denoised(process, sigma, 1 - near.down / sigma),
    );
    const shares = [sigma - middle, middle - next].map((part) => Math.sqrt(part / (sigma - next)));
    const moved = [
      { ...BEGUN, scale: far.down / sigma },
      ...denoised(process, middle, 1 - far.down / sigma),
    ];
    return {
      middle,
      first: [
        { target: "history1", terms: [{ tensor: "noise", scale: 1 }] },
        { target: "sample", terms: [...times(near.keep, closer), ...near.noise] },
      ],
      second: [{
        target: "sample",
        terms: [
          ...times(far.keep, moved),
          ...far.noise.flatMap(({ scale }): Term[] => [
            { tensor: "history1", scale: scale * shares[0]! },
            { tensor: "noise", scale: scale * shares[1]! },
          ]),
        ],
      }],
    };
  });
}

const BEGUN: Term = { tensor: "history0", scale: 1 };
