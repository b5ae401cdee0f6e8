/** Samplers that look at earlier steps, each by a rule of its own. */
import { eulerStep } from "./euler_steps.ts";
import type { Process } from "./process.ts";
import type { HistoryName, StepCoefficients, Term } from "./schedule.ts";
import { denoised, type Levels, slope, type Steps } from "./steps.ts";

const LMS_ORDER = 4;

/**
 * Adams and Bashforth's method on uneven steps: the polynomial through the latest slopes, integrated over the step.
 * Source: k-diffusion's `sample_lms`; diffusers' LMSDiscreteScheduler.
 */
export function lms({ timesteps, sigmas }: Levels, process: Process): Steps {
  const slot = (i: number): HistoryName => `history${i % LMS_ORDER}`;
  const steps = Array.from(timesteps, (_, i): StepCoefficients => {
    const points = Array.from({ length: Math.min(i + 1, LMS_ORDER) }, (_, k) => sigmas[i - k]!);
    const terms = points.map((_, k): Term => ({
      tensor: slot(i - k),
      scale: integralOfLagrange(points, k, sigmas[i]!, sigmas[i + 1]!),
    }));
    return [
      { target: slot(i), terms: slope(process, sigmas[i]!, 1) },
      { target: "sample", terms: [{ tensor: "sample", scale: 1 }, ...terms] },
    ];
  });
  return { timesteps, sigmas, history: LMS_ORDER, steps };
}

export interface DeisOptions {
  readonly order: number;
  /** Whether the last steps are of lower order, down to the first; a step that ends at 0 always is of the first. */
  readonly lowersLast: boolean;
}

/**
 * As `lms`, with polynomials in ln σ. Source: Zhang and Chen 2023, "Fast Sampling of Diffusion Models with Exponential Integrator";
 * diffusers' DEISMultistepScheduler.
 */
export function deis(
  { timesteps, sigmas }: Levels,
  process: Process,
  { order: most, lowersLast }: DeisOptions = { order: 2, lowersLast: false },
): Steps {
  const slot = (i: number): HistoryName => `history${i % most}`;
  const steps = Array.from(timesteps, (_, i): StepCoefficients => {
    const [sigma, next] = [sigmas[i]!, sigmas[i + 1]!];
    const left = next === 0 ? 1 : lowersLast ? timesteps.length - i : most;
    const order = Math.min(most, i + 1, left);
    const points = Array.from({ length: order }, (_, k) => Math.log(sigmas[i - k]!));
    const terms = points.map((_, k): Term => ({
      tensor: slot(i - k),
      scale: order === 1 ? next - sigma : integralInLogarithm(points, k, sigma, next),
    }));
    return [
      { target: slot(i), terms: slope(process, sigma, 1) },
      { target: "sample", terms: [{ tensor: "sample", scale: 1 }, ...terms] },
    ];
  });
  return { timesteps, sigmas, history: most, steps };
}

/** Of the polynomial in ln x that is 1 at point `k` and 0 at one or two others, over x. */
function integralInLogarithm(
  points: readonly number[],
  k: number,
  from: number,
  to: number,
): number {
  const others = points.filter((_, j) => j !== k);
  const scale = others.reduce((product, other) => product * (points[k]! - other), 1);
  const antiderivative = (x: number): number => {
    const log = Math.log(x);
    const [a, b] = others;
    if (b === undefined) return x * (log - 1 - a!);
    return x * (log ** 2 - 2 * log + 2 - (a! + b) * (log - 1) + a! * b);
  };
  return (antiderivative(to) - antiderivative(from)) / scale;
}

/** Of the polynomial that is 1 at point `k` and 0 at the others. Gauss's rule of two points is exact up to the third degree. */
function integralOfLagrange(
  points: readonly number[],
  k: number,
  from: number,
  to: number,
): number {
  const at = (x: number) =>
    points.reduce((product, p, j) => j === k ? product : product * (x - p) / (points[k]! - p), 1);
  const [middle, half] = [(from + to) / 2, (to - from) / 2];
  return half * (at(middle - half / Math.sqrt(3)) + at(middle + half / Math.sqrt(3)));
}

/**
 * A second-order exponential integrator in −ln σ. Source: Zhang et al. 2023, "Improved Order Analysis and Design of Exponential
 * Integrator for Diffusion Models Sampling"; ComfyUI's `sample_res_multistep`.
 */
export function resMultistep({ timesteps, sigmas }: Levels, process: Process): Steps {
  const slot = (i: number): HistoryName => `history${i % 2}`;
  const steps = Array.from(timesteps, (_, i): StepCoefficients => {
    const [sigma, next] = [sigmas[i]!, sigmas[i + 1]!];
    const kept = { target: slot(i), terms: denoised(process, sigma) };
    if (i === 0 || next === 0) return [kept, ...eulerStep(process, sigma, next)];
    const h = Math.log(sigma / next);
    const first = -Math.expm1(-h);
    // h·φ₂(−h)/c₂, where φ₂ is the integrator's second function and c₂ the step before in units of this one.
    const second = (first / h - 1) * h / Math.log(sigmas[i - 1]! / sigma);
    return [kept, {
      target: "sample",
      terms: [
        { tensor: "sample", scale: next / sigma },
        { tensor: slot(i), scale: first - second },
        { tensor: slot(i - 1), scale: second },
      ],
    }];
  });
  return { timesteps, sigmas, history: 2, steps };
}

const ER_POINTS = 200;

/**
 * ER-SDE-Solver-3, with κ = σ/α and ρ(κ) = κ·(e^{κ^0.3} + 10). Source: Cui et al. 2023, "Elucidating the Solution Space of Extended
 * Reverse-Time SDE for Diffusion Models"; ComfyUI's `sample_er_sde`, whose sum over 200 points stands for the integrals.
 */
export function erSde({ timesteps, sigmas }: Levels, process: Process): Steps {
  const kappas = sigmas.map((sigma) => sigma / process.signal(sigma));
  const slot = (i: number): HistoryName => `history${i % 3}`;
  const steps = Array.from(timesteps, (_, i): StepCoefficients => {
    const [sigma, next] = [sigmas[i]!, sigmas[i + 1]!];
    const kept = { target: slot(i), terms: denoised(process, sigma) };
    if (next === 0) return [kept, { target: "sample", terms: [{ tensor: slot(i), scale: 1 }] }];
    const [from, to] = [kappas[i]!, kappas[i + 1]!];
    const ratio = growth(to) / growth(from);
    const weights = [1 - ratio * to / from, 0, 0];
    const gap = (k: number) => kappas[i - k]! - kappas[i - k - 1]!;
    const integral = (power: number) => integralOverRho(from, to, power) * to * growth(to);
    if (i > 0) {
      const first = (to - from + integral(0)) / gap(0);
      weights[0]! += first;
      weights[1]! -= first;
    }
    if (i > 1) {
      const second = ((to - from) ** 2 / 2 + integral(1)) * 2 / (from - kappas[i - 2]!);
      weights[0]! += second / gap(0);
      weights[1]! -= second / gap(0) + second / gap(1);
      weights[2]! += second / gap(1);
    }
    const terms: Term[] = [
      { tensor: "sample", scale: next / sigma * ratio },
      ...weights.slice(0, i + 1)
        .map((weight, k): Term => ({
          tensor: slot(i - k),
          scale: process.signal(next) * weight,
        })),
      { tensor: "noise", scale: next * Math.sqrt(1 - ratio ** 2) },
    ];
    return [kept, { target: "sample", terms }];
  });
  return { timesteps, sigmas, history: 3, steps };
}

/** ρ(κ)/κ. */
function growth(kappa: number): number {
  return Math.exp(kappa ** 0.3) + 10;
}

/** ∫ (κ − from)^power / ρ(κ) dκ from `to` up to `from`, as a sum of left rectangles. */
function integralOverRho(from: number, to: number, power: number): number {
  const width = (from - to) / ER_POINTS;
  let sum = 0;
  for (let k = 0; k < ER_POINTS; k++) {
    const kappa = to + k * width;
    sum += (kappa - from) ** power / (kappa * growth(kappa));
  }
  return sum * width;
}
