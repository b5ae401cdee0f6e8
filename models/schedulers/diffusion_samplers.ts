/** Samplers of diffusion models: on the levels of their class in diffusers, and on levels that a request chooses. */
import { ddim, pndm, type StartedSteps } from "./ddim_steps.ts";
import { type DiffusionModel, eulerLevels, type StartedLevels } from "./diffusion_levels.ts";
import { euler } from "./euler_steps.ts";
import type { SamplerName } from "./names.ts";
import type { Process } from "./process.ts";
import type { Sampler } from "./steps.ts";

interface DiffusionSteps {
  /** As the class of diffusers that has this sampler, from the step `start` on. */
  own(model: DiffusionModel, count: number, start: number): StartedSteps;
  /** On other levels; absent where the sampler has its own alone. */
  readonly given?: Sampler;
}

export const DIFFUSION_STEPS: Readonly<Partial<Record<SamplerName, DiffusionSteps>>> = {
  euler: onLevels(eulerLevels, euler),
  ddim: { own: ddim, given: euler },
  pndm: { own: pndm },
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
  const levels = { timesteps: timesteps.slice(start), sigmas: sigmas.slice(start) };
  return { ...sampler(levels, process), noiseScale };
}
