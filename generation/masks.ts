/**
 * Edits of which a mask keeps a part of the image: what may be said of them, and how image and mask are brought to the
 * size of the result.
 */

import type { ModelInfo, TaskType } from "../engine/types.ts";
import type { Fit } from "../media/fit.ts";
import type { PixelImage, RgbImage } from "../media/image.ts";
import { maskOf, type MaskWay, paintedShare } from "../media/mask.ts";
import type { FitMode } from "./fields.ts";
import { fitToResult, type ImageRules, sizeFromImage } from "./fit_image.ts";
import type { Size } from "./size.ts";

/** How much the shapes of mask and image may differ. */
const SHAPE_TOLERANCE = 0.02;

/** How many pixels, as a share of the model's usual ones, an image may have that is painted in its own size. */
const OWN_SIZES: readonly [least: number, most: number] = [1 / 4, 2];

/**
 * Whether a model can keep a part of an image by a mask.
 *
 * @param info of the model
 * @param task that the request is for
 * @returns true if it can
 */
export function takesMask(info: Pick<ModelInfo, "inpainting">, task: TaskType): boolean {
  return task === "TI2I" && info.inpainting !== undefined;
}

/**
 * What a model says of its settings, for requests with a mask: they have a strength, with a default of its own.
 *
 * @param info of a model that {@link takesMask}
 * @returns the rules
 */
export function maskedRules(info: ModelInfo): ModelInfo {
  const TI2I = { ...info.taskDefaults["TI2I"], ...info.inpainting };
  return { ...info, taskDefaults: { ...info.taskDefaults, TI2I } };
}

/**
 * The size of a masked result for which none was asked: the image's own, cut to what the model makes, where the model
 * draws such sizes well; what is kept is then that of the image, pixel by pixel.
 *
 * @param image the first of those given
 * @param rules of the model
 * @returns the size; that without a mask for an image of far more or far fewer pixels than the model's own
 * @throws {RangeError} when the model cannot use such an image
 */
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

/**
 * How an image with a mask, and the mask, are brought to the size of the result: cut, not scaled, where that is enough.
 *
 * @param image its size
 * @param result size of the result
 * @param rules of the model
 * @param mode how the image meets the result; what that leaves around it is painted
 * @returns how
 */
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

/**
 * Refuses masks that are not of the image.
 *
 * @param mask its size
 * @param image size of the image
 * @throws {RangeError} when their shapes differ
 */
export function checkMaskShape(mask: Size, image: Size): void {
  const stretch = mask.width / mask.height * image.height / image.width;
  if (Math.abs(Math.log(stretch)) <= SHAPE_TOLERANCE) return;
  throw new RangeError(
    `Cannot use a mask of ${mask.width}x${mask.height}: the image has ${image.width}x${image.height}; ` +
      "send a mask of that size, or of its shape",
  );
}

/**
 * Refuses masks that leave nothing to do.
 *
 * @param share how much of the result is painted
 * @throws {RangeError} when nothing is
 */
export function checkPainted(share: number): void {
  if (share > 0) return;
  throw new RangeError(
    "Cannot use the mask: it keeps all of the image; make white, or transparent, what is to be painted",
  );
}

/**
 * Brings a mask to the size of the result.
 *
 * @param mask white or transparent where the image is redrawn
 * @param how as {@link fitMasked} says
 * @returns white where it is painted
 * @throws {RangeError} when nothing is
 */
export function fitMask(mask: PixelImage, how: Fit, way?: MaskWay): RgbImage {
  const fitted = maskOf(mask, how, way);
  checkPainted(paintedShare(fitted));
  return fitted;
}
