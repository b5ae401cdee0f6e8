/**
 * Time shifting of flow-matching sigmas: more steps at high noise for larger pictures.
 *
 * The reference computes some of these in float32 and some in float64, and the difference shows in
 * the seventh digit of a timestep. So every formula takes the rounding to apply after each
 * operation: `Math.fround`, or {@link exact}.
 *
 * @module
 */

/** Rounds the result of one operation to the precision that the reference works in. */
export type Rounding = (value: number) => number;

/** The rounding of float64: none. */
export function exact(value: number): number {
  return value;
}

/** σ' = s·σ / (1 + (s − 1)·σ). `shift` 1 leaves σ as it is. */
export function staticShift(sigma: number, shift: number, round: Rounding): number {
  const numerator = round(shift * sigma);
  return round(numerator / round(1 + round((shift - 1) * sigma)));
}

/** How `mu` acts: exponential σ' = e^μ / (e^μ + 1/σ − 1), linear σ' = μ / (μ + 1/σ − 1). */
export type TimeShiftType = "exponential" | "linear";

/** Dynamic shifting (`use_dynamic_shifting`) of one sigma in (0, 1]. */
export function dynamicShift(
  sigma: number,
  mu: number,
  type: TimeShiftType,
  round: Rounding,
): number {
  const weight = round(type === "exponential" ? Math.exp(mu) : mu);
  return round(weight / round(weight + round(round(1 / sigma) - 1)));
}

/**
 * Stretches sigmas so that the last is `terminal` and 1 stays 1: 1 − (1 − σ)·(1 − terminal) /
 * (1 − σ_last).
 *
 * @throws {RangeError} if the last sigma is 1, as with a single step
 */
export function stretchToTerminal(
  sigmas: readonly number[],
  terminal: number,
  round: Rounding,
): number[] {
  const distances = sigmas.map((sigma) => round(1 - sigma));
  if (distances[distances.length - 1] === 0) {
    throw new RangeError(
      `Cannot make a schedule: shift_terminal ${terminal} needs a last sigma below 1; take more steps`,
    );
  }
  const factor = round(distances[distances.length - 1]! / round(1 - terminal));
  return distances.map((distance) => round(1 - round(distance / factor)));
}

/** `count` values from `first` to `last`, both included, as NumPy's linspace spaces them. */
export function linspace(first: number, last: number, count: number): number[] {
  const step = (last - first) / (count - 1);
  return Array.from(
    { length: count },
    (_, i) => i === 0 ? first : i === count - 1 ? last : i * step + first,
  );
}
