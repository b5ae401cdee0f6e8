/** What samplers have in common: from levels and a process to the terms of steps. A step goes from σ to σ'; D is denoised. */
import type { Process, Weights } from "./process.ts";
import type { Schedule, StepCoefficients, Term } from "./schedule.ts";

/** Timesteps and noise levels of a run: one level more than timesteps. */
export type Levels = Pick<Schedule, "timesteps" | "sigmas">;

/** The steps of a sampler, and the levels that it visits. */
export interface Steps extends Levels {
  readonly history: number;
  readonly steps: readonly StepCoefficients[];
}

export type Sampler = (levels: Levels, process: Process) => Steps;

/** A sampler whose steps know nothing of earlier ones. */
export function stepwise(
  step: (process: Process, sigma: number, next: number) => StepCoefficients,
): Sampler {
  return ({ timesteps, sigmas }, process) => ({
    timesteps,
    sigmas,
    history: 0,
    steps: Array.from(timesteps, (_, i) => step(process, sigmas[i]!, sigmas[i + 1]!)),
  });
}

/** D times `scale`, of the sample and the output at level σ. */
export function denoised(process: Process, sigma: number, scale = 1): Term[] {
  return weighted(process.denoised(sigma), scale);
}

/** (x − D)/σ times `scale`. */
export function slope(process: Process, sigma: number, scale: number): Term[] {
  return weighted(process.slope(sigma), scale);
}

function weighted([sample, output]: Weights, scale: number): Term[] {
  const terms: Term[] = [];
  if (sample !== 0) terms.push({ tensor: "sample", scale: scale * sample });
  if (output !== 0) terms.push({ tensor: "output", scale: scale * output });
  return terms;
}

/** The sample times `keep`, and further terms; those of the sample are added up. */
export function withSample(keep: number, terms: readonly Term[]): Term[] {
  const own = terms.find(({ tensor }) => tensor === "sample");
  const others = terms.filter((term) => term !== own);
  return [{ tensor: "sample", scale: keep + (own?.scale ?? 0) }, ...others];
}

/** Terms times a factor. */
export function times(factor: number, terms: readonly Term[]): Term[] {
  return terms.map(({ tensor, scale }) => ({ tensor, scale: factor * scale }));
}

/** Down to σ↓ = σ'²/σ, and what leads from there up to σ' with fresh noise. */
export function ancestral(
  process: Process,
  sigma: number,
  next: number,
): { readonly down: number; readonly keep: number; readonly noise: Term[] } {
  const down = next ** 2 / sigma;
  const keep = process.signal(next) / process.signal(down);
  const scale = Math.sqrt(Math.max(0, next ** 2 - (down * keep) ** 2));
  return { down, keep, noise: scale > 0 ? [{ tensor: "noise", scale }] : [] };
}
