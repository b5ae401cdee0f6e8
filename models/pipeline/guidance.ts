/** Guidance: what the outputs for several prompts make together. */
import type { Tensor } from "../../runtime/mod.ts";
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
