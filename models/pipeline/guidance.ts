/** Guidance: what the outputs for several prompts make together. */
import { type DeviceTensor, elementwise, slice, type Tensor } from "../../runtime/mod.ts";
import { sumOfAll } from "../blocks/sums.ts";
import type { PipelineRequest } from "./types.ts";

export interface Guidance {
  /** Weights of the outputs in the velocity of step `i`, one for each prompt; a pass of weight 0 is omitted. */
  weights(i: number): readonly number[];
  /** Where {@linkcode CombinedGuidance} takes the place of the sum: its settings, and its weight in the velocity of step `i`. */
  readonly combined?: {
    settings(i: number): readonly number[];
    weight(i: number): number;
  };
}

export interface CombinedGuidance {
  /** How many numbers a request gives. */
  readonly settings: number;
  /** What it takes beside the outputs. */
  readonly inputs?: Readonly<Record<string, DeviceTensor>>;
  /**
   * Of [1, tokens, features] each, one for each prompt and then those of further passes; `settings` are f32 [1, 1, n], and
   * `given` has the sample and what `inputs` name.
   */
  trace(
    outputs: readonly Tensor[],
    settings: Tensor,
    given: { readonly sample: Tensor } & Readonly<Record<string, Tensor>>,
  ): Tensor;
}

/** n + scale · (p − n); p alone with one prompt. Source: Ho and Salimans 2022, "Classifier-Free Diffusion Guidance". */
export function classifierFree(scale: number, prompts: number): Guidance {
  return { weights: () => (prompts === 1 ? [1] : [scale, 1 - scale]) };
}

/** What {@linkcode classifierFree} makes of two outputs; the scale is the first of the settings. */
export function guidedOutput(positive: Tensor, negative: Tensor, settings: Tensor): Tensor {
  const g = slice(settings, 2, 0, 1);
  return elementwise("n + g * (p - n)", { p: positive, n: negative, g });
}

/** {@linkcode classifierFree}, whose output a {@linkcode CombinedGuidance} of scale and `share` then changes by the share. */
export function rescaledGuidance(scale: number, share: number, prompts: number): Guidance {
  if (prompts === 1 || share === 0) return classifierFree(scale, prompts);
  return {
    weights: () => [1, 1],
    combined: { settings: () => [scale, share], weight: () => 1 },
  };
}

export interface SkipLayerGuidance {
  readonly layers: readonly number[];
  readonly scale: number;
  readonly start: number;
  readonly stop: number;
}

export function skipLayersOf(request: PipelineRequest): SkipLayerGuidance | undefined {
  const { skipGuidanceLayers: layers = [], skipLayerGuidanceScale: scale = 2.8 } = request;
  const { skipLayerGuidanceStart: start = 0.01, skipLayerGuidanceStop: stop = 0.2 } = request;
  return layers.length > 0 && scale > 0 ? { layers, scale, start, stop } : undefined;
}

/** Adds scale · (p − k), k the last output, of a pass without some layers, in the steps between two. Source: SD 3.5. */
export function withSkippedLayers(
  guidance: Guidance,
  { scale }: Pick<SkipLayerGuidance, "scale">,
  [after, before]: readonly [after: number, before: number],
): Guidance {
  return {
    weights(i) {
      const [positive = 0, ...others] = guidance.weights(i);
      return i > after && i < before
        ? [positive + scale, ...others, -scale]
        : [positive, ...others, 0];
    },
  };
}

/** Steps at the beginning in which {@linkcode cfgZeroStar} leaves the sample as it is. */
const ZERO_STEPS = 1;

/**
 * a·n + scale · (p − a·n) with a = p·n / ‖n‖²; the first step does nothing.
 * Source: Fan et al. 2025, "CFG-Zero*: Improved Classifier-Free Guidance for Flow Matching Models".
 */
export function cfgZeroStar(scale: number): Guidance {
  return {
    weights: () => [1, 1],
    combined: { settings: () => [scale], weight: (i) => (i < ZERO_STEPS ? 0 : 1) },
  };
}

/** What {@linkcode cfgZeroStar} makes of the outputs. The setting is the scale. */
export const ZERO_STAR_GUIDANCE: CombinedGuidance = {
  settings: 1,
  trace([positive, negative], settings) {
    const product = sumOfAll(elementwise("p * n", { p: positive!, n: negative! }));
    const square = sumOfAll(elementwise("n * n", { n: negative! }));
    return elementwise("a / (s + 1e-8) * n + g * (p - a / (s + 1e-8) * n)", {
      a: product,
      s: square,
      p: positive!,
      n: negative!,
      g: settings,
    }, { name: "guided" });
  },
};

export function guidedPrompts(
  { prompt, negativePrompt, guidanceScale }: PipelineRequest,
  isGuided: boolean = guidanceScale > 1,
): string[] {
  return isGuided ? [prompt, negativePrompt] : [prompt];
}
