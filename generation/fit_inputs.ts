/** Input images and masks: how they are brought to the sizes in which a model takes them. */

import type { InputImage, ModelInfo, TaskType } from "../engine/types.ts";
import type { Fit } from "../media/fit.ts";
import type { PixelImage, RgbImage } from "../media/image.ts";
import type { FitMode } from "./fields.ts";
import { keepOwnSize, type Size, sizeLike } from "./size.ts";
import { maskOf, type MaskWay, paintedShare } from "../media/mask.ts";

export type ImageRules = Pick<
  ModelInfo,
  "imageLimits" | "defaults" | "sizeMultiple" | "maxPixels" | "layers"
>;

/** The size of a result for which none was asked: the image's own where the model keeps it, else the model's pixels in its shape. */
export function sizeFromImage(image: Size, rules: ImageRules): Size {
  const { imageLimits, defaults, layers } = rules;
  const like = (sizeMultiple = rules.sizeMultiple) =>
    sizeLike(image, defaults, { ...rules, sizeMultiple });
  if (!imageLimits) return like(layers?.shapeMultiple);
  const { cut } = keepOwnSize(image, imageLimits);
  return imageLimits.shapeMultiple ? like(imageLimits.shapeMultiple) : cut;
}

/** How an image is brought to the size of the result, or to a size of its own where the model takes that. */
export function fitOf(
  image: Size,
  result: Size,
  { imageLimits, layers }: ImageRules,
  mode?: FitMode,
): Fit {
  if (imageLimits) return keepOwnSize(image, imageLimits);
  return { ...fitToResult(result, mode), ...(layers && { keepsAlpha: true }) };
}

/** How an image is brought to the size of the result; what `mode` leaves around an image with a mask is painted. */
export function fitToResult({ width, height }: Size, mode: FitMode = "cover"): Fit {
  const frame = { width, height };
  if (mode === "stretch") return { scaled: frame, cut: frame };
  return mode === "contain" ? { contain: frame } : { cover: frame };
}

/** Longer images are cut before they are scaled: whole, they would be huge in between. */
const MAX_VISION_ASPECT = 8;

/** How an image is shown to an encoder of squares with this side: its middle, as CLIP's preprocessing cuts it out. */
export function visionFit(image: Size, side: number): Fit {
  const short = Math.min(image.width, image.height);
  const cut = { width: side, height: side };
  if (Math.max(image.width, image.height) > MAX_VISION_ASPECT * short) return { cover: cut };
  const [width, height] = [image.width, image.height].map((length) =>
    Math.floor(side * length / short)
  ) as [number, number];
  return { scaled: { width, height }, cut, filter: "bicubic" };
}

/** @throws {RangeError} when the model takes fewer, or none */
export function checkReferenceCount(
  count: number,
  { maxReferences = 0 }: Pick<ModelInfo, "maxReferences">,
): void {
  if (count <= maxReferences) return;
  throw new RangeError(
    `Cannot use ${count} reference image${count === 1 ? "" : "s"}: this model takes ${
      maxReferences || "none"
    }`,
  );
}

const MAX_REFERENCE_PIXELS = 2048 * 2048;

/** A reference image comes as it is, for the model fits it into the result itself; very large ones are scaled down first. */
export function referenceFit(image: Size): Fit {
  const scale = Math.min(1, Math.sqrt(MAX_REFERENCE_PIXELS / (image.width * image.height)));
  const side = (length: number) => Math.max(1, Math.floor(length * scale));
  const scaled = { width: side(image.width), height: side(image.height) };
  return { scaled, cut: scaled };
}

/** An image with its transparency apart, as requests bring it. */
export function givenImage(image: PixelImage): InputImage {
  const { width, height, data } = image;
  if (image.channels !== 4) return { width, height, data };
  const alpha = Uint8Array.from({ length: width * height }, (_, i) => data[4 * i + 3]!);
  return { width, height, data: data.filter((_, i) => i % 4 < 3), alpha };
}

/** Images with what the model's image encoder sees of each, where it has one. */
export function withVisions(
  images: readonly InputImage[],
  visions: readonly InputImage[] = [],
): InputImage[] {
  return images.map((image, i) => {
    const vision = visions[i];
    return vision ? { ...image, vision: vision.data } : image;
  });
}

/** How much the shapes of mask and image may differ. */
const SHAPE_TOLERANCE = 0.02;

/** How many pixels, as a share of the model's usual ones, an image may have that is painted in its own size. */
const OWN_SIZES: readonly [least: number, most: number] = [1 / 4, 2];

/** Whether a model can keep a part of an image by a mask. */
export function takesMask(info: Pick<ModelInfo, "inpainting">, task: TaskType): boolean {
  return task === "TI2I" && info.inpainting !== undefined;
}

/** The rules of a model that {@link takesMask}, for requests with a mask: they have a strength, with a default of its own. */
export function maskedRules(info: ModelInfo): ModelInfo {
  const TI2I = { ...info.taskDefaults["TI2I"], ...info.inpainting };
  return { ...info, taskDefaults: { ...info.taskDefaults, TI2I } };
}

/** The size of a masked result for which none was asked: the image's own, cut to what the model makes, where it draws such sizes well. */
export function sizeFromMasked(image: Size, rules: ImageRules): Size {
  const otherwise = sizeFromImage(image, rules);
  const { defaults, sizeMultiple: step, maxPixels } = rules;
  const [width, height] = [image.width, image.height].map((side) => side - side % step) as [
    number,
    number,
  ];
  const pixels = width * height;
  const share = pixels / (defaults.width * defaults.height);
  const [least, most] = OWN_SIZES;
  return share >= least && share <= most && pixels <= maxPixels ? { width, height } : otherwise;
}

/** How an image with a mask, and the mask, are brought to the size of the result: cut, not scaled, where that is enough. */
export function fitMasked(
  image: Size,
  result: Size,
  { sizeMultiple }: Pick<ImageRules, "sizeMultiple">,
  mode?: FitMode,
): Fit {
  const tooMuch = [image.width - result.width, image.height - result.height];
  const isCut = mode === undefined && tooMuch.every((much) => much >= 0 && much < sizeMultiple);
  return isCut ? { scaled: image, cut: result } : fitToResult(result, mode);
}

/** @throws {RangeError} when their shapes differ */
export function checkMaskShape(mask: Size, image: Size): void {
  const stretch = mask.width / mask.height * image.height / image.width;
  if (Math.abs(Math.log(stretch)) <= SHAPE_TOLERANCE) return;
  throw new RangeError(
    `Cannot use a mask of ${mask.width}x${mask.height}: the image has ${image.width}x${image.height}; ` +
      "send a mask of that size, or of its shape",
  );
}

/** @throws {RangeError} when nothing of the result is painted */
export function checkPainted(share: number): void {
  if (share > 0) return;
  throw new RangeError(
    "Cannot use the mask: it keeps all of the image; make white, or transparent, what is to be painted",
  );
}

/** White where it is painted, as {@link fitMasked} says; the image is redrawn where `mask` is white or transparent. */
export function fitMask(mask: PixelImage, how: Fit, way?: MaskWay): RgbImage {
  const fitted = maskOf(mask, how, way);
  checkPainted(paintedShare(fitted));
  return fitted;
}
