/**
 * DDIM and PNDM, whose classes in diffusers end a step at the timestep t − N/n, rounded down, whether or not the next step begins
 * there. They keep samples of unit variance, √ᾱ·x0 + √(1 − ᾱ)·noise; so a sample that ends at σ↓ and goes on as one of σ' is
 * multiplied by √(σ'² + 1)/√(σ↓² + 1), and at the end of the run, where the latents are taken as they are, σ' counts as 0.
 * Sources: Song et al. 2021, "Denoising Diffusion Implicit Models"; Liu et al. 2022, "Pseudo Numerical Methods for Diffusion
 * Models on Manifolds"; diffusers' DDIMScheduler, and PNDMScheduler with `skip_prk_steps`.
 */
import { booleanField } from "./config.ts";
import type { DiffusionModel } from "./diffusion_levels.ts";
import { spread } from "./process.ts";
import type { Assignment, HistoryName, StateName, StepCoefficients, Term } from "./schedule.ts";
import { spacedTimesteps } from "./spacing.ts";
import { slope, type Steps, times, withSample } from "./steps.ts";

const SPACING = { fallback: "leading", whole: true } as const;

/** Steps of a class that keeps samples of unit variance. */
export interface StartedSteps extends Steps {
  readonly noiseScale: number;
}

export function ddim(model: DiffusionModel, count: number, start: number): StartedSteps {
  const grid = gridOf(model, count, true);
  const timesteps = spacedTimesteps(model.config, SPACING, model.table.length, count).slice(start);
  const sigmas = [...timesteps.map(grid.sigma), 0];
  const steps = timesteps.map((timestep, i): StepCoefficients => {
    const end = grid.sigma(timestep - grid.step);
    const moved = withSample(1, slope(model.process, sigmas[i]!, end - sigmas[i]!));
    return [{ target: "sample", terms: times(spread(sigmas[i + 1]!) / spread(end), moved) }];
  });
  return started(timesteps, sigmas, { history: 0, steps });
}

/** Weights of the latest outputs, the last first, by Adams and Bashforth. */
const ADAMS_BASHFORTH = [[1], [3 / 2, -1 / 2], [23 / 12, -16 / 12, 5 / 12], [
  ...[55 / 24, -59 / 24, 37 / 24, -9 / 24],
]];

/** The second timestep comes twice: its first call only corrects the first step. */
export function pndm(model: DiffusionModel, count: number, start: number): StartedSteps {
  const { process } = model;
  const grid = gridOf(model, count, false);
  const spaced = spacedTimesteps(model.config, SPACING, model.table.length, count);
  const timesteps = [...spaced.slice(0, 2), ...spaced.slice(1)].slice(start);
  const sigmas = [...timesteps.map(grid.sigma), 0];
  const slot = (i: number): HistoryName => `history${i % 4}`;
  const first: HistoryName = "history4";
  const steps = timesteps.map((timestep, i): StepCoefficients => {
    const isRepeat = i === 1;
    const [from, end] = isRepeat
      ? [grid.sigma(timestep + grid.step), sigmas[1]!]
      : [sigmas[i]!, grid.sigma(timestep - grid.step)];
    const latest = Math.max(i - 1, 0);
    const outputs: readonly (readonly [StateName, number])[] = isRepeat
      ? [["output", 1 / 2], [slot(0), 1 / 2]]
      : ADAMS_BASHFORTH[Math.min(latest, 3)]!.map((weight, k) => [slot(latest - k), weight]);
    const [own, output] = process.slope(from);
    const kept = 1 + (end - from) * own;
    const moved: Term[] = [
      isRepeat
        ? { tensor: first, scale: kept * spread(from) / spread(sigmas[0]!) }
        : { tensor: "sample", scale: kept },
      ...outputs.map(([tensor, weight]) => ({ tensor, scale: (end - from) * output * weight })),
    ];
    const step: Assignment = {
      target: "sample",
      terms: times(spread(sigmas[i + 1]!) / spread(end), moved),
    };
    if (isRepeat) return [step];
    const begun: Assignment[] = i === 0
      ? [{ target: first, terms: [{ tensor: "sample", scale: 1 }] }]
      : [];
    return [{ target: slot(latest), terms: [{ tensor: "output", scale: 1 }] }, ...begun, step];
  });
  return started(timesteps, sigmas, { history: 5, steps });
}

function gridOf({ config, table }: DiffusionModel, count: number, endsAtZero: boolean) {
  const last = booleanField(config, "set_alpha_to_one", endsAtZero) ? 0 : table.sigmas[0]!;
  return {
    step: Math.floor(table.length / count),
    sigma: (timestep: number): number => timestep < 0 ? last : table.sigmaWithoutFloor(timestep),
  };
}

function started(
  timesteps: readonly number[],
  sigmas: readonly number[],
  others: Pick<Steps, "history" | "steps">,
): StartedSteps {
  return {
    timesteps: Float64Array.from(timesteps),
    sigmas: Float64Array.from(sigmas),
    noiseScale: spread(sigmas[0]!),
    ...others,
  };
}
