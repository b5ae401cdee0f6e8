/**
 * Layers: an image is split into several that have alpha, the one at the back first. The sample holds the whole image
 * before them, which is no part of the result.
 *
 * Source: diffusers `QwenImageLayeredPipeline`.
 */
import type { LayerLimits, PipelineRequest } from "../../pipeline/types.ts";
import { LAYERED_CLASS, type QwenImageParts } from "./config.ts";
import { SIDE_MULTIPLE } from "./edit.ts";

/** Tokens of an image whose noise levels are shifted by e. */
const BASE_TOKENS = 256;
/** Pixels along a side by default. */
const DEFAULT_SIDE = 640;

/** How a model splits images. */
export interface LayerRules extends LayerLimits {
  /** Pixels along a side of an image by default. */
  readonly side: number;
}

/** How a model splits images, or nothing where it does not. */
export function layerRules(
  { className }: Pick<QwenImageParts, "className">,
): LayerRules | undefined {
  if (className !== LAYERED_CLASS) return undefined;
  return { initial: 4, most: 16, side: DEFAULT_SIDE, shapeMultiple: SIDE_MULTIPLE };
}

/** How many images a sample holds, and how many of them, the last ones, are the result. */
export interface ImageCounts {
  readonly sampled: number;
  readonly results: number;
}

/** The image counts of a request. */
export function imageCounts(
  { layers }: Pick<PipelineRequest, "layers">,
  rules: LayerRules | undefined,
): ImageCounts {
  if (!rules) return { sampled: 1, results: 1 };
  const results = layers ?? rules.initial;
  return { sampled: results + 1, results };
}

/** The dynamic shift of images that are split. */
export function layeredShift(tokens: number): number {
  return Math.sqrt(tokens / BASE_TOKENS);
}
