/** The sigmas of a request: quantiles of a logistic normal distribution, whose mean grows with the size. */

const MODEL_PIXELS = 512 * 512;
const STD = 1.5;
/** Logarithms of the ratio of signal and noise, at the ends. */
const [LEAST, MOST] = [-15, 18];

/**
 * The first steps stand at most noise. Source: diffusers `Ideogram4Pipeline`, `_logit_normal_sigmas` and
 * `_resolution_aware_mu`.
 */
export function logitNormalSigmas(steps: number, pixels: number): number[] {
  const mean = 0.5 * Math.log(pixels / MODEL_PIXELS);
  const [least, most] = [MOST, LEAST].map((ratio) => logistic(-0.5 * ratio)) as [number, number];
  return Array.from({ length: steps }, (_, i) => {
    const signal = logistic(-(mean + STD * normalQuantile((steps - i) / steps)));
    return Math.fround(1 - Math.min(Math.max(signal, least), most));
  });
}

function logistic(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

/** The value below which a normal variable lies with this probability: Newton's steps, which come from the middle. */
export function normalQuantile(probability: number): number {
  if (probability <= 0 || probability >= 1) return probability <= 0 ? -Infinity : Infinity;
  if (probability < 0.5) return -normalQuantile(1 - probability);
  let x = 0;
  for (let step = 1; step > 1e-15 * (1 + x);) {
    const density = Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
    // Φ(x) − 1/2 is the density times x + x³/3 + x⁵/(3·5) + …
    let sum = 0;
    for (let term = x, k = 1; term > 1e-17 * sum; k += 2, term *= x * x / k) sum += term;
    step = (probability - 0.5) / density - sum;
    x += step;
  }
  return x;
}

/** In so many of the last steps guidance is no stronger than this. Source: the default of diffusers' pipeline for 48 steps. */
const POLISH = { share: 3 / 48, scale: 3 } as const;

export function guidanceAt(scale: number, step: number, steps: number): number {
  const isPolish = step >= steps - Math.floor(steps * POLISH.share);
  return isPolish ? Math.min(scale, POLISH.scale) : scale;
}
