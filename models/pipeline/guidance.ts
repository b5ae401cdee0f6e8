/** Guidance: what the outputs for several prompts make together. */
import { elementwise, linear, slice, type Tensor } from "../../runtime/mod.ts";
import type { PipelineRequest } from "./types.ts";

/** How a request is guided. */
export interface Guidance {
  /** Weights of the outputs in the velocity of step `i`, one for each prompt; a pass of weight 0 is left out. */
  weights(i: number): readonly number[];
  /** Where {@linkcode CombinedGuidance} takes the place of the sum: its settings, and its weight in the velocity. */
  readonly combined?: { readonly settings: readonly number[]; readonly weight: number };
}

/** Guidance that is no weighted sum. */
export interface CombinedGuidance {
  /** How many numbers a request gives. */
  readonly settings: number;
  /**
   * @param positive output for the prompt, [1, tokens, features]
   * @param negative for the negative prompt
   * @param settings f32 [1, 1, n]
   */
  trace(positive: Tensor, negative: Tensor, settings: Tensor): Tensor;
}

/**
 * Classifier-free guidance, n + scale · (p − n); p alone where there is one prompt.
 *
 * Source: Ho and Salimans 2022, "Classifier-Free Diffusion Guidance".
 */
export function classifierFree(scale: number, prompts: number): Guidance {
  return { weights: () => (prompts === 1 ? [1] : [scale, 1 - scale]) };
}

/** The prompt, and the negative one where the request is guided. */
export function guidedPrompts(
  { prompt, negativePrompt, guidanceScale }: PipelineRequest,
  isGuided: boolean = guidanceScale > 1,
): string[] {
  return isGuided ? [prompt, negativePrompt] : [prompt];
}

/**
 * Guidance whose result is no longer than the prompt's own velocity allows: p + scale · (p − n), shortened to
 * ratio · ‖p‖ where it is longer. The settings are scale and ratio.
 *
 * Source: diffusers `ZImagePipeline`, `cfg_normalization`.
 */
export const LIMITED_GUIDANCE: CombinedGuidance = {
  settings: 2,
  trace(positive, negative, settings) {
    const scale = slice(settings, 2, 0, 1);
    const predicted = elementwise("p + g * (p - n)", { p: positive, n: negative, g: scale });
    const factor = elementwise("min(1.0, limit * sqrt(p / max(q, 1e-30)))", {
      limit: slice(settings, 2, 1, 2),
      p: sumOfSquares(positive),
      q: sumOfSquares(predicted),
    });
    return elementwise("x * factor", { x: predicted, factor }, { name: "guided" });
  },
};

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
