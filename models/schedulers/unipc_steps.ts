/**
 * UniPC: a multistep predictor with a corrector that costs no further model call.
 *
 * With λ = ln(α/σ) write m for the denoised samples D of earlier steps,
 * m₀ that of the step just left, h = λ_t − λ_s for the move s → t, r_k = (λ_k − λ_s)/h for the step k
 * before it, φ = e^{−h} − 1, and B = φ (`bh2`) or −h (`bh1`). A move of order p is
 *
 *   x_t = (σ_t/σ_s)·x_s − α_t·φ·m₀ − α_t·B·Σ_k ρ_k·(m_k − m₀)/r_k
 *
 * The predictor sums over p − 1 earlier x0. When the model has been called at t, the corrector makes
 * the same move again, with the x0 found at t as one more point, for which r = 1. The weights ρ solve
 * Σ_k r_k^{j−1}·ρ_k = b_j, with b_j = j!·φ_{j+1}(−h)·(−h)/B and φ_k the exponential integrator
 * functions.
 *
 * Source: Zhao et al., "UniPC: A Unified Predictor-Corrector Framework for Fast Sampling of Diffusion
 * Models", 2023, and diffusers' UniPCMultistepScheduler with `use_flow_sigmas`, as Wan uses it.
 */

import type { Process } from "./process.ts";
import type { HistoryName, StateName, StepCoefficients, Term } from "./schedule.ts";
import { denoised, type Levels, type Steps } from "./steps.ts";
import { SettingError } from "../setting_error.ts";

/** What the reference moves the first sigma of a flow down by: at σ = 1 exactly λ is −∞. */
export const SIGMA_EPSILON = 1e-6;

export interface UnipcOptions {
  readonly order: number;
  readonly solverType: "bh1" | "bh2";
  readonly lowerOrderFinal: boolean;
  readonly disableCorrector: ReadonlySet<number>;
}

const DEFAULTS: UnipcOptions = {
  order: 2,
  solverType: "bh2",
  lowerOrderFinal: true,
  disableCorrector: new Set(),
};

/** One move of the solver: the weights of x_s, of m₀, of earlier x0 and of the x0 at the target. */
interface Move {
  readonly sample: number;
  readonly current: number;
  readonly earlier: readonly number[];
  readonly target: number;
}

export function unipc(
  { timesteps, sigmas: given }: Levels,
  process: Process,
  options: UnipcOptions = DEFAULTS,
  start = 0,
): Steps {
  const sigmas = given.slice();
  if (process.signal(sigmas[0]!) === 0) sigmas[0] = Math.fround(1 - SIGMA_EPSILON);
  const steps = unipcSteps(sigmas, process, options, start);
  return { timesteps, sigmas, history: options.order + 1, steps };
}

/** Slots 0 to order − 1 hold x0, of step i in slot i mod order; slot `order` has the sample before the last predictor. */
function unipcSteps(
  sigmas: Float64Array,
  process: Process,
  options: UnipcOptions,
  start: number,
): StepCoefficients[] {
  const { order: most, lowerOrderFinal, disableCorrector } = options;
  const count = sigmas.length - 1;
  const slot = (i: number): HistoryName => `history${i % most}`;
  const from: HistoryName = `history${most}`;
  const steps: StepCoefficients[] = [];
  let order = 0;
  for (let i = 0; i < count; i++) {
    const sigma = sigmas[i]!;
    const corrected: Term[] = [];
    if (i > 0 && !disableCorrector.has(start + i - 1)) {
      const move = moveOf(sigmas, process, i - 1, order, options, true);
      corrected.push({ tensor: from, scale: move.sample });
      // The x0 at the target, written out, because its slot still holds the oldest x0.
      corrected.push(...denoised(process, sigma, move.target));
      corrected.push(...x0Terms(move, i - 1, slot));
    } else {
      corrected.push({ tensor: "sample", scale: 1 });
    }

    const remaining = lowerOrderFinal ? count - i : most;
    order = Math.min(most, remaining, i + 1);
    const move = moveOf(sigmas, process, i, order, options, false);
    steps.push([
      { target: from, terms: corrected },
      { target: slot(i), terms: denoised(process, sigma) },
      {
        target: "sample",
        terms: [{ tensor: from, scale: move.sample }, ...x0Terms(move, i, slot)],
      },
    ]);
  }
  return steps;
}

/** The move from step s to step s + 1, as predictor or, with the x0 of step s + 1, as corrector. */
function moveOf(
  sigmas: Float64Array,
  process: Process,
  s: number,
  order: number,
  { solverType }: UnipcOptions,
  corrector: boolean,
): Move {
  const lambda = (i: number): number => Math.log(process.signal(sigmas[i]!) / sigmas[i]!);
  const sigma = sigmas[s + 1]!;
  const alpha = process.signal(sigma);
  const h = lambda(s + 1) - lambda(s);
  const phi = Math.expm1(-h);
  const b = solverType === "bh1" ? -h : phi;

  const ratios = Array.from({ length: order - 1 }, (_, k) => (lambda(s - k - 1) - lambda(s)) / h);
  const weights = moveWeights(ratios, h, b, corrector);
  const earlier = ratios.map((ratio, k) => -alpha * b * weights[k]! / ratio);
  const target = corrector ? -alpha * b * weights[order - 1]! : 0;
  const differences = earlier.reduce((sum, weight) => sum + weight, target);
  const move = {
    sample: sigma / sigmas[s]!,
    current: -alpha * phi - differences,
    earlier,
    target,
  };
  if (![move.sample, move.current, ...earlier, target].every(Number.isFinite)) {
    const range = `sigma ${sigmas[s]} to ${sigma}`;
    throw new SettingError(
      "numInferenceSteps",
      `Cannot make a UniPC schedule: a step of order ${order} from ${range} divides by zero; ` +
        `set lower_order_final or take fewer steps`,
    );
  }
  return move;
}

function x0Terms(move: Move, s: number, slot: (i: number) => StateName): Term[] {
  return [
    { tensor: slot(s), scale: move.current },
    ...move.earlier.map((scale, k) => ({ tensor: slot(s - k - 1), scale })),
  ];
}

/** The weights ρ of a move: one per earlier x0 and, for a corrector, one for the target's. */
function moveWeights(
  ratios: readonly number[],
  h: number,
  b: number,
  corrector: boolean,
): number[] {
  const size = corrector ? ratios.length + 1 : ratios.length;
  // The lowest orders take ½, which is exact for B(h) → 0 only; UniPC fixes it for every h.
  if (size === 0) return [];
  if (size === 1) return [0.5];
  const points = corrector ? [...ratios, 1] : ratios;
  const rows = points.map((_, j) => points.map((ratio) => ratio ** j));
  const right: number[] = [];
  let phi = Math.expm1(-h) / -h - 1;
  let factorial = 1;
  for (let j = 1; j <= size; j++) {
    right.push(phi * factorial / b);
    factorial *= j + 1;
    phi = phi / -h - 1 / factorial;
  }
  return solve(rows, right);
}

function solve(rows: readonly number[][], right: readonly number[]): number[] {
  const n = right.length;
  const m = rows.map((row, i) => [...row, right[i]!]);
  for (let column = 0; column < n; column++) {
    let pivot = column;
    for (let i = column + 1; i < n; i++) {
      if (Math.abs(m[i]![column]!) > Math.abs(m[pivot]![column]!)) pivot = i;
    }
    [m[column], m[pivot]] = [m[pivot]!, m[column]!];
    for (let i = column + 1; i < n; i++) {
      const factor = m[i]![column]! / m[column]![column]!;
      for (let j = column; j <= n; j++) m[i]![j]! -= factor * m[column]![j]!;
    }
  }
  const x = new Array<number>(n).fill(0);
  for (let i = n - 1; i >= 0; i--) {
    let sum = m[i]![n]!;
    for (let j = i + 1; j < n; j++) sum -= m[i]![j]! * x[j]!;
    x[i] = sum / m[i]![i]!;
  }
  return x;
}
