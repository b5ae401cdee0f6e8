/**
 * Edits: the text encoder sees the images in the prompt, the transformer as latents beside the result. Layers: the sample
 * holds the whole image before them.
 * Source: diffusers `QwenImageEditPipeline`, `QwenImageEditPlusPipeline` and `QwenImageLayeredPipeline`.
 */
import type { RgbImage } from "../../../media/image.ts";
import { resize } from "../../../media/resize.ts";
import {
  type PatchGrid,
  patchGrid,
  roundToEven,
  type Sides,
} from "../../image_encoders/qwen2_5_vision.ts";
import { withAlpha } from "../../pipeline/pixels.ts";
import type { LayerLimits, PipelineRequest } from "../../pipeline/types.ts";
import { EDIT_CLASSES, LAYERED_CLASS, type QwenImageParts } from "./config.ts";

export const SIDE_MULTIPLE = 32;

export interface EditRules {
  readonly isPlus: boolean;
  /** Pixels of the copies that the transformer sees, about. */
  readonly latentArea: number;
  /** Pixels of the copies that the text encoder sees. */
  readonly visionArea: number;
  /** Pixels along a side of a patch of the text encoder. */
  readonly patchSide: number;
}

export function editRules(
  { className, settings, textEncoder }: Pick<
    QwenImageParts,
    "className" | "settings" | "textEncoder"
  >,
): EditRules | undefined {
  if (!EDIT_CLASSES.some((name) => name === className)) return undefined;
  const isPlus = className === EDIT_CLASSES[1];
  const { vae_image_size: latentArea, condition_image_size } = settings;
  return {
    isPlus,
    latentArea,
    visionArea: isPlus ? condition_image_size : latentArea,
    patchSide: textEncoder.config.vision!.patch_size,
  };
}

export function copySize({ width, height }: Sides, area: number): Sides {
  const ratio = width / height;
  const wide = Math.sqrt(area * ratio);
  const round = (side: number) =>
    Math.max(SIDE_MULTIPLE, roundToEven(side / SIDE_MULTIPLE) * SIDE_MULTIPLE);
  return { width: round(wide), height: round(wide / ratio) };
}

export function visionGrid(image: Sides, { visionArea, patchSide }: EditRules): PatchGrid {
  return patchGrid(copySize(image, visionArea), patchSide);
}

export function latentCopy(image: RgbImage, { latentArea }: EditRules): RgbImage {
  const { width, height } = copySize(image, latentArea);
  return resize(image, width, height);
}

export function visionCopy(image: RgbImage, { visionArea }: EditRules): RgbImage {
  const { width, height } = copySize(image, visionArea);
  return resize(image, width, height);
}

export async function digestOf({ images = [] }: PipelineRequest): Promise<string> {
  const parts: string[] = [];
  for (const image of images) {
    const { width, height } = image;
    const { data } = image.alpha ? withAlpha(image) : image;
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", data as BufferSource));
    parts.push(`${width}x${height} ${hash.toHex()}`);
  }
  return parts.join(", ");
}

/** Tokens of an image whose noise levels are shifted by e. */
const BASE_TOKENS = 256;
const DEFAULT_SIDE = 640;

export interface LayerRules extends LayerLimits {
  readonly side: number;
}

export function layerRules(
  { className }: Pick<QwenImageParts, "className">,
): LayerRules | undefined {
  if (className !== LAYERED_CLASS) return undefined;
  return { initial: 4, most: 16, side: DEFAULT_SIDE, shapeMultiple: SIDE_MULTIPLE };
}

export interface ImageCounts {
  readonly sampled: number;
  readonly results: number;
}

export function imageCounts(
  { layers }: Pick<PipelineRequest, "layers">,
  rules: LayerRules | undefined,
): ImageCounts {
  if (!rules) return { sampled: 1, results: 1 };
  const results = layers ?? rules.initial;
  return { sampled: results + 1, results };
}

export function layeredShift(tokens: number): number {
  return Math.sqrt(tokens / BASE_TOKENS);
}
