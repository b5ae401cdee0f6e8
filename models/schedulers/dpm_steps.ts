/**
 * Multistep DPM-Solver++ in λ = ln(α/σ), with or without fresh noise. For a step from λ to λ + h, with H = (1 + η)·h,
 *
 *   x ← (σ'/σ)·e^{−ηh}·x + α'·(1 − e^{−H})·D + α'·(c₁·D₁ + c₂·D₂) + σ'·√(1 − e^{−2ηh})·noise
 *
 * where D₁ and D₂ are differences of D over earlier steps, in units of h.
 * Sources: Lu et al. 2022, "DPM-Solver++"; diffusers' DPMSolverMultistepScheduler; k-diffusion's `sample_dpmpp_2m_sde` and
 * `sample_dpmpp_3m_sde`, which the third order with noise follows: diffusers has another sign in its last term.
 */
import { halfLogSnr, type Process } from "./process.ts";
import type { HistoryName, StepCoefficients, Term } from "./schedule.ts";
import { denoised, type Levels, type Steps, withSample } from "./steps.ts";

export interface DpmOptions {
  /** 1, 2 or 3. */
  readonly order: number;
  /** How a step of second order weighs D₁. */
  readonly solver: "midpoint" | "heun";
  /** η: 0 without noise, 1 for the SDE. */
  readonly eta: 0 | 1;
  /** Whether the last steps are of lower order, down to the first; a step that ends at 0 always is of the first. */
  readonly lowersLast: boolean;
  readonly lastIsEuler: boolean;
}

const SECOND: DpmOptions = {
  order: 2,
  solver: "midpoint",
  eta: 0,
  lowersLast: false,
  lastIsEuler: false,
};

export function dpmpp(
  { timesteps, sigmas }: Levels,
  process: Process,
  options: Partial<DpmOptions> = {},
): Steps {
  const { order: most, solver, eta, lowersLast, lastIsEuler } = { ...SECOND, ...options };
  const count = timesteps.length;
  const lambda = (i: number): number => halfLogSnr(process, sigmas[i]!);
  const slot = (i: number): HistoryName => `history${i % most}`;
  const steps = Array.from(timesteps, (_, i): StepCoefficients => {
    const [sigma, next] = [sigmas[i]!, sigmas[i + 1]!];
    const h = lambda(i + 1) - lambda(i);
    const isEuler = next === 0 || lastIsEuler && i === count - 1;
    const left = isEuler ? 1 : lowersLast ? count - i : most;
    const before = (k: number) => lambda(i - k + 1) - lambda(i - k);
    const order = Math.min(most, i + 1, left);
    const terms: Term[] = [
      { tensor: "sample", scale: next / sigma * (eta ? Math.exp(-eta * h) : 1) },
      ...weightsOfDenoised(order, solver, process.signal(next), h, eta, before)
        .map((scale, k) => ({ tensor: slot(i - k), scale })),
    ];
    const noise = eta ? next * Math.sqrt(-Math.expm1(-2 * eta * h)) : 0;
    if (noise > 0) terms.push({ tensor: "noise", scale: noise });
    return [
      { target: slot(i), terms: denoised(process, sigma) },
      { target: "sample", terms },
    ];
  });
  return { timesteps, sigmas, history: most, steps };
}

/** Orders of singlestep steps: pairs of the first and the second, and the first where a run ends. */
export function singlestepOrders(count: number, most: number): number[] {
  const last = count - 1;
  return Array.from(
    { length: count },
    (_, i) => (most > 1 && i % 2 === 1 && i < last ? 2 : 1),
  );
}

/**
 * Singlestep DPM-Solver++: the second step of a pair starts again from where the first one did, with D of both.
 * Sources: Lu et al. 2022, "DPM-Solver++"; diffusers' DPMSolverSinglestepScheduler.
 */
export function dpmppSinglestep(
  { timesteps, sigmas }: Levels,
  process: Process,
  orders: readonly number[] = singlestepOrders(timesteps.length, 2),
  solver: DpmOptions["solver"] = "midpoint",
): Steps {
  const lambda = (i: number): number => halfLogSnr(process, sigmas[i]!);
  const steps = Array.from(timesteps, (_, i): StepCoefficients => {
    const [sigma, next] = [sigmas[i]!, sigmas[i + 1]!];
    const isSecond = i > 0 && orders[i] === 2;
    const first = isSecond ? i - 1 : i;
    const h = lambda(i + 1) - lambda(first);
    const begun: Term = {
      tensor: isSecond ? "history0" : "sample",
      scale: next / sigmas[first]!,
    };
    const whole = -process.signal(next) * Math.expm1(-h);
    if (!isSecond) {
      return [
        { target: "history0", terms: [{ tensor: "sample", scale: 1 }] },
        { target: "history1", terms: denoised(process, sigma) },
        { target: "sample", terms: withSample(begun.scale, denoised(process, sigma, whole)) },
      ];
    }
    // Of D₁ = (D − D′)/r, r the share of the first step in both.
    const weight = solver === "midpoint"
      ? whole / 2
      : process.signal(next) * (Math.expm1(-h) / h + 1);
    const change = weight * h / (lambda(i) - lambda(first));
    return [{
      target: "sample",
      terms: [
        begun,
        { tensor: "history1", scale: whole - change },
        ...denoised(process, sigma, change),
      ],
    }];
  });
  return { timesteps, sigmas, history: 2, steps };
}

export function dpmpp2mSde(levels: Levels, process: Process): Steps {
  return dpmpp(levels, process, { eta: 1 });
}

export function dpmpp3mSde(levels: Levels, process: Process): Steps {
  return dpmpp(levels, process, { order: 3, solver: "heun", eta: 1 });
}

/** Weights of D and of those before it; `before(k)` is the h of the k-th step before. */
function weightsOfDenoised(
  order: number,
  solver: "midpoint" | "heun",
  alpha: number,
  h: number,
  eta: number,
  before: (k: number) => number,
): number[] {
  const whole = (1 + eta) * h;
  const first = -alpha * Math.expm1(-whole);
  if (order === 1) return [first];
  const ratio = h / before(1);
  if (order === 2 && solver === "midpoint") {
    const half = ratio / 2;
    return [first * (1 + half), -first * half];
  }
  const second = Math.expm1(-whole) / whole + 1;
  if (order === 2) return [first + alpha * second * ratio, -alpha * second * ratio];
  const third = second / whole - 1 / 2;
  const [r0, r1] = [before(1) / h, before(2) / h];
  // D₁ = d₀ + (d₀ − d₁)·r0/(r0 + r1) and D₂ = (d₀ − d₁)/(r0 + r1), where d₀ = (D − D′)/r0 and d₁ = (D′ − D″)/r1.
  const change = alpha * (second * r0 - third) / (r0 + r1);
  const [c0, c1] = [(alpha * second + change) / r0, change / r1];
  return [first + c0, -c0 - c1, c1];
}
