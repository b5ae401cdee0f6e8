/** Given images, brought to the size in which a model takes them. */

import type { InputImage, ModelInfo } from "../engine/types.ts";
import type { Fit } from "../media/fit.ts";
import type { PixelImage } from "../media/image.ts";
import type { FitMode } from "./fields.ts";
import { keepOwnSize, type Size, sizeLike } from "./size.ts";

/** What a model says of the images that it takes and makes. */
export type ImageRules = Pick<
  ModelInfo,
  "imageLimits" | "defaults" | "sizeMultiple" | "maxPixels" | "layers"
>;

/**
 * The size of a result for which none was asked: the image's own where the model keeps it, or else about the model's
 * own number of pixels in the shape of the image.
 *
 * @param image the first of those given
 * @param rules of the model
 * @returns the size
 * @throws {RangeError} when the model cannot use such an image
 */
export function sizeFromImage(image: Size, rules: ImageRules): Size {
  const { imageLimits, defaults, layers } = rules;
  const like = (sizeMultiple = rules.sizeMultiple) =>
    sizeLike(image, defaults, { ...rules, sizeMultiple });
  if (!imageLimits) return like(layers?.shapeMultiple);
  const { cut } = keepOwnSize(image, imageLimits);
  return imageLimits.shapeMultiple ? like(imageLimits.shapeMultiple) : cut;
}

/**
 * How an image is brought to what a model takes: to the size of the result, or to a size of its own where the model
 * takes that.
 *
 * @param image its size
 * @param result size of the result
 * @param rules of the model
 * @param mode how it meets the size of the result
 * @returns how
 * @throws {RangeError} when the model cannot use it
 */
export function fitOf(
  image: Size,
  result: Size,
  { imageLimits, layers }: ImageRules,
  mode?: FitMode,
): Fit {
  if (imageLimits) return keepOwnSize(image, imageLimits);
  return { ...fitToResult(result, mode), ...(layers && { keepsAlpha: true }) };
}

/**
 * How an image is brought to the size of the result, whatever sizes the model takes.
 *
 * @param result its size
 * @param mode how the image meets it; what that leaves around an image with a mask is painted
 * @returns how
 */
export function fitToResult({ width, height }: Size, mode: FitMode = "cover"): Fit {
  const frame = { width, height };
  if (mode === "stretch") return { scaled: frame, cut: frame };
  return mode === "contain" ? { contain: frame } : { cover: frame };
}

/** Longer images are cut before they are scaled: whole, they would be huge in between. */
const MAX_VISION_ASPECT = 8;

/**
 * How an image is shown to an image encoder: its middle, as CLIP's preprocessing cuts it out.
 *
 * @param image its size
 * @param side of the square that the encoder takes
 * @returns how
 */
export function visionFit(image: Size, side: number): Fit {
  const short = Math.min(image.width, image.height);
  const cut = { width: side, height: side };
  if (Math.max(image.width, image.height) > MAX_VISION_ASPECT * short) return { cover: cut };
  const [width, height] = [image.width, image.height].map((length) =>
    Math.floor(side * length / short)
  ) as [number, number];
  return { scaled: { width, height }, cut, filter: "bicubic" };
}

/**
 * Checks how many reference images a request brings.
 *
 * @throws {RangeError} when the model takes fewer, or none
 */
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

/** Most pixels of a reference image. */
const MAX_REFERENCE_PIXELS = 2048 * 2048;

/**
 * How a reference image is brought to what a model takes: as it comes, for the model fits it into the result itself.
 * Very large ones are scaled down first.
 *
 * @param image its size
 * @returns how
 */
export function referenceFit(image: Size): Fit {
  const scale = Math.min(1, Math.sqrt(MAX_REFERENCE_PIXELS / (image.width * image.height)));
  const side = (length: number) => Math.max(1, Math.floor(length * scale));
  const scaled = { width: side(image.width), height: side(image.height) };
  return { scaled, cut: scaled };
}

/**
 * An image with its transparency apart, as requests bring it.
 *
 * @param image RGB or RGBA
 * @returns the image
 */
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
