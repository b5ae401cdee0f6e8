/**
 * UniPC: a multistep predictor with a corrector that costs no further model call, of order 2 as models use it.
 *
 * On a rectified flow α = 1 − σ, λ = ln(α/σ), and x0 = x − σ·v. Write m₀ for the x0 of the step just left, m₁ for that
 * of the step before, h = λ_t − λ_s for the move s → t, r = (λ_{s−1} − λ_s)/h and φ = e^{−h} − 1. A move is
 *
 *   x_t = (σ_t/σ_s)·x_s − α_t·φ·(m₀ + ρ₁·(m₁ − m₀)/r + ρ_t·(m_t − m₀))
 *
 * The predictor has ρ_t = 0. When the model has been called at t, the corrector makes the same move again with the x0
 * found there, m_t. Its weights solve ρ₁ + ρ_t = b₁ and r·ρ₁ + ρ_t = b₂, with b_j = j!·φ_{j+1}(−h)·(−h)/φ and φ_k the
 * exponential integrator functions.
 *
 * Source: Zhao et al., "UniPC: A Unified Predictor-Corrector Framework for Fast Sampling of Diffusion
 * Models", 2023, and diffusers' UniPCMultistepScheduler with `use_flow_sigmas`, as Wan uses it: with `bh2`.
 */

import {
  fixedSchedule,
  type HistoryName,
  type Schedule,
  type StepCoefficients,
  type Term,
} from "./schedule.ts";

/** What the reference moves the first sigma down by: at σ = 1 exactly λ is −∞. */
export const SIGMA_EPSILON = 1e-6;

/** One move of the solver: the weights of x_s, of m₀, of m₁ and of the x0 at the target. */
interface Move {
  readonly sample: number;
  readonly current: number;
  /** Nothing in a move of order 1, which knows no earlier x0. */
  readonly earlier?: number;
  readonly target: number;
}

/** Slots 0 and 1 hold x0 in turn; slot 2 the sample that the last predictor started from. */
const FROM = "history2";

export function unipcSchedule(levels: Pick<Schedule, "timesteps" | "sigmas">): Schedule {
  const sigmas = levels.sigmas.slice();
  if (sigmas[0] === 1) sigmas[0] = Math.fround(1 - SIGMA_EPSILON);
  const steps = Array.from(levels.timesteps, (_, i) => unipcStep(sigmas, i));
  return fixedSchedule({ timesteps: levels.timesteps, sigmas, history: 3, steps });
}

function unipcStep(sigmas: Float64Array, i: number): StepCoefficients {
  const sigma = sigmas[i]!;
  // The first move knows no earlier x0; the last one leads to σ = 0.
  const order = (i: number) => i === 0 || i === sigmas.length - 2 ? 1 : 2;
  const corrected: Term[] = [];
  if (i === 0) corrected.push({ tensor: "sample", scale: 1 });
  else {
    const move = moveOf(sigmas, i - 1, order(i - 1), true);
    corrected.push(
      { tensor: FROM, scale: move.sample },
      // The x0 at the target, written out, because its slot still holds the oldest x0.
      { tensor: "sample", scale: move.target },
      { tensor: "output", scale: -sigma * move.target },
      ...x0Terms(move, i - 1),
    );
  }
  const move = moveOf(sigmas, i, order(i), false);
  const x0: Term[] = [{ tensor: "sample", scale: 1 }, { tensor: "output", scale: -sigma }];
  return [
    { target: FROM, terms: corrected },
    { target: slot(i), terms: x0 },
    { target: "sample", terms: [{ tensor: FROM, scale: move.sample }, ...x0Terms(move, i)] },
  ];
}

/** Where x0 of a step is kept. */
function slot(i: number): HistoryName {
  return `history${i % 2}`;
}

/** The move from step s to step s + 1, as predictor or, with the x0 of step s + 1, as corrector. */
function moveOf(sigmas: Float64Array, s: number, order: 1 | 2, isCorrector: boolean): Move {
  const lambda = (i: number): number => Math.log((1 - sigmas[i]!) / sigmas[i]!);
  const sigma = sigmas[s + 1]!;
  const alpha = 1 - sigma;
  const h = lambda(s + 1) - lambda(s);
  const phi = Math.expm1(-h);
  const ratio = order === 1 ? 1 : (lambda(s - 1) - lambda(s)) / h;
  // One weight alone is ½, which is exact for φ → 0 only; UniPC fixes it for every h.
  let [before, at] = isCorrector ? [0, 0.5] : [0.5, 0];
  if (order === 1) before = 0;
  else if (isCorrector) {
    const phi2 = phi / -h - 1;
    const [right1, right2] = [phi2 / phi, 2 * (phi2 / -h - 0.5) / phi];
    before = (right1 - right2) / (1 - ratio);
    at = right1 - before;
  }
  const earlier = -alpha * phi * before / ratio;
  const target = -alpha * phi * at;
  const current = -alpha * phi - earlier - target;
  const move = { sample: sigma / sigmas[s]!, current, target };
  if (![...Object.values(move), earlier].every(Number.isFinite)) {
    throw new RangeError(
      `Cannot make a UniPC schedule: a step of order ${order} from sigma ${
        sigmas[s]
      } to ${sigma} divides by zero; ` +
        "take fewer steps",
    );
  }
  return order === 1 ? move : { ...move, earlier };
}

/** The x0 that a move from step s weighs. */
function x0Terms({ current, earlier }: Move, s: number): Term[] {
  const terms: Term[] = [{ tensor: slot(s), scale: current }];
  return earlier === undefined ? terms : [...terms, { tensor: slot(s - 1), scale: earlier }];
}
