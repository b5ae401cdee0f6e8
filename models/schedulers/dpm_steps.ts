/** DPM-Solver++ in λ = ln(α/σ). Source: Lu et al. 2022, "DPM-Solver++"; diffusers' DPMSolverMultistepScheduler. */
import type { Process } from "./process.ts";
import type { HistoryName, StepCoefficients, Term } from "./schedule.ts";
import { denoised, type Levels, type Steps } from "./steps.ts";

/**
 * 2M: x ← (σ'/σ)·x − α'·(e^{−h} − 1)·(D + ½·(h/h_before)·(D − D_before)), where h = λ' − λ. The first step, and one that ends
 * at 0, go without `D_before`.
 */
export function dpmpp2m({ timesteps, sigmas }: Levels, process: Process): Steps {
  const lambda = (i: number): number => Math.log(process.signal(sigmas[i]!) / sigmas[i]!);
  const slot = (i: number): HistoryName => `history${i % 2}`;
  const steps = Array.from(timesteps, (_, i): StepCoefficients => {
    const [sigma, next] = [sigmas[i]!, sigmas[i + 1]!];
    const h = lambda(i + 1) - lambda(i);
    const weight = -process.signal(next) * Math.expm1(-h);
    const ratio = i === 0 || next === 0 ? 0 : h / (lambda(i) - lambda(i - 1)) / 2;
    const terms: Term[] = [
      { tensor: "sample", scale: next / sigma },
      { tensor: slot(i), scale: weight * (1 + ratio) },
    ];
    if (i > 0 && next > 0) terms.push({ tensor: slot(i - 1), scale: -weight * ratio });
    if (!terms.every(({ scale }) => Number.isFinite(scale))) {
      throw new RangeError(
        `Cannot make a dpmpp_2m schedule: a step from sigma ${sigma} to ${next} divides by zero; take fewer steps`,
      );
    }
    return [
      { target: slot(i), terms: denoised(process, sigma) },
      { target: "sample", terms },
    ];
  });
  return { timesteps, sigmas, history: 2, steps };
}
