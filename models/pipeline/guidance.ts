/** Guidance: what the velocities of several prompts make together. */
import { elementwise, linear, slice, type Tensor } from "../../runtime/mod.ts";

/** How a request is guided. */
export interface Guidance {
  /**
   * Weights of the outputs in the velocity of a step, one for each prompt.
   *
   * @param i the step
   */
  weights(i: number): readonly number[];
  /** Whether a step is guided: the passes of the other prompts are left out where it is not; all are when left out. */
  isGuided?(i: number): boolean;
  /** Sign of the velocity in what a pass gives, scale, and longest share of the prompt's own; without a limit if left out. */
  readonly limit?: { readonly sign: 1 | -1; readonly scale: number; readonly ratio: number };
}

/** A prompt alone. */
export const UNGUIDED: Guidance = { weights: () => [1] };

/**
 * Classifier-free guidance, n + scale · (p − n).
 *
 * Source: Ho and Salimans 2022, "Classifier-Free Diffusion Guidance".
 */
export function classifierFree(scale: number): Guidance {
  return { weights: () => [scale, 1 - scale] };
}

/**
 * Guidance whose result is no longer than the prompt's own velocity allows: p + scale · (p − n), shortened to
 * ratio · ‖p‖ where it is longer.
 *
 * Source: diffusers `ZImagePipeline`, `cfg_normalization`.
 *
 * @param positive p, [1, tokens, features]
 * @param negative n, of the same shape
 * @param limits f32 [1, 1, 2]: scale and ratio
 */
export function limitedGuidance(positive: Tensor, negative: Tensor, limits: Tensor): Tensor {
  const scale = slice(limits, 2, 0, 1);
  const predicted = elementwise("p + g * (p - n)", { p: positive, n: negative, g: scale });
  const factor = elementwise("min(1.0, limit * sqrt(p / max(q, 1e-30)))", {
    limit: slice(limits, 2, 1, 2),
    p: sumOfSquares(positive),
    q: sumOfSquares(predicted),
  });
  return elementwise("x * factor", { x: predicted, factor }, { name: "guided" });
}

/** Sum of the squares of all elements, [1, 1, 1]; by rows first, so that no sum is long. */
function sumOfSquares(x: Tensor): Tensor {
  const squares = elementwise("x * x", { x });
  return sumOfRows(sumOfRows(squares).reshape(1, 1, x.dim(1)));
}

/** [..., n] summed to [..., 1]. */
function sumOfRows(x: Tensor): Tensor {
  const count = x.dim(-1);
  const ones = x.graph.constant(
    `ones ${count}`,
    [1, count],
    "f32",
    new Float32Array(count).fill(1),
  );
  return linear(x, ones, { name: "sum" });
}
