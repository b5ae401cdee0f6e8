/**
 * Noise levels that depend on the two ends alone: `count` from `first` down to `last`. Sources: diffusers'
 * schedulers; ComfyUI's `kl_optimal_scheduler`.
 */
import { linspace } from "./shift.ts";

/** The exponent of Karras et al., "Elucidating the Design Space of Diffusion-Based Generative Models", 2022. */
const KARRAS_RHO = 7;

/** α and β of the beta distribution: Lee et al., "Beta Sampling is All You Need", 2024. */
const BETA_SHAPE = 0.6;

/** Terms of the continued fraction: up to x = ½, where it is used, 40 leave no digit of float64. */
const FRACTION_TERMS = 40;

export type Redistribution = "karras" | "exponential" | "beta" | "kl_optimal";

export function redistributed(
  name: Redistribution,
  first: number,
  last: number,
  count: number,
): number[] {
  if (name === "karras") {
    const ends = [first, last].map((sigma) => sigma ** (1 / KARRAS_RHO)) as [number, number];
    return linspace(...ends, count).map((root) => root ** KARRAS_RHO);
  }
  if (name === "exponential") {
    return linspace(Math.log(first), Math.log(last), count).map(Math.exp);
  }
  if (name === "kl_optimal") {
    return linspace(Math.atan(first), Math.atan(last), count).map(Math.tan);
  }
  return linspace(0, 1, count).map((t) => last + betaQuantile(1 - t) * (first - last));
}

/** Where the beta distribution with α = β = {@linkcode BETA_SHAPE} has the share `p`, 0 to 1, below it. */
export function betaQuantile(p: number): number {
  if (p === 0 || p === 0.5 || p === 1) return p;
  // The distribution is symmetric, and its fraction converges up to the middle.
  if (p > 0.5) return 1 - betaQuantile(1 - p);
  const share = 2 * p * betaMass(0.5);
  let [low, high] = [0, 0.5];
  for (;;) {
    const middle = (low + high) / 2;
    if (middle <= low || middle >= high) return middle;
    if (betaMass(middle) < share) low = middle;
    else high = middle;
  }
}

/** B(x; α, α) times α, x in [0, ½], by its continued fraction. Source: NIST DLMF, 8.17.22. */
function betaMass(x: number): number {
  const a = BETA_SHAPE;
  let fraction = 1;
  for (let k = FRACTION_TERMS; k >= 1; k--) {
    const m = Math.floor(k / 2);
    const term = k % 2 === 0
      ? m * (a - m) / ((a + 2 * m - 1) * (a + 2 * m))
      : -(a + m) * (2 * a + m) / ((a + 2 * m) * (a + 2 * m + 1));
    fraction = 1 + term * x / fraction;
  }
  return x ** a * (1 - x) ** a / fraction;
}
