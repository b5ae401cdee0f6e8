/** Width and height of a request: reading them, and what a model can make. */

import type { ImageLimits, InputImage, ModelInfo, TaskType } from "../engine/types.ts";
import { hiresSize } from "../engine/hires.ts";
import type { HiresSettings } from "../models/pipeline/settings.ts";
import type { Fit } from "../media/fit.ts";
import type { PixelImage, RgbImage } from "../media/image.ts";
import type { FitMode } from "./fields.ts";
import { maskOf, type MaskWay, paintedShare } from "../media/mask.ts";
import { roundHalfEven } from "../models/schedulers/spacing.ts";

/** A size in pixels. */
export interface Size {
  /** Pixels per row. */
  width: number;
  /** Number of rows. */
  height: number;
}

/** What a model says of the sizes it can make. */
interface SizeLimits {
  /** Pixels that both sides must be multiples of. */
  readonly sizeMultiple: number;
  /** Largest width times height. */
  readonly maxPixels: number;
}

/** Reads `<width>x<height>`, both at least 1; case and spaces do not matter. @throws {RangeError} for anything else */
export function parseSize(text: string): Size {
  const match = /^(\d{1,9})[x×](\d{1,9})$/i.exec(text.replace(/\s+/g, ""));
  const [width, height] = [Number(match?.[1]), Number(match?.[2])];
  if (!(width > 0 && height > 0)) {
    throw new RangeError("size must be formatted as positive WIDTHxHEIGHT");
  }
  return { width, height };
}

/** @throws {RangeError} that names the nearest size that works */
export function checkSize(size: Size, limits: SizeLimits): void {
  const { width, height } = size;
  const { sizeMultiple, maxPixels } = limits;
  for (const [name, side] of [["width", width], ["height", height]] as const) {
    if (!Number.isSafeInteger(side) || side <= 0) {
      throw new RangeError(`${name} must be positive`);
    }
  }
  const nearest = nearestSize(size, limits);
  const instead = `the nearest size is ${nearest.width}x${nearest.height}`;
  if (width % sizeMultiple !== 0 || height % sizeMultiple !== 0) {
    throw new RangeError(
      `Cannot generate ${width}x${height}: this model makes sides that are multiples of ` +
        `${sizeMultiple}; ${instead}`,
    );
  }
  if (width * height > maxPixels) {
    throw new RangeError(
      `Cannot generate ${width}x${height}: this model makes at most ${maxPixels} pixels; ${instead}`,
    );
  }
}

/** @throws {RangeError} for a hires fix that the model cannot make, or that makes a side shorter */
export function checkHires(
  request: Size & HiresSettings,
  limits: SizeLimits,
): void {
  const size = hiresSize(request, limits);
  if (!size) return;
  const { width, height } = request;
  if (size.width < width || size.height < height) {
    throw new RangeError(
      `Cannot make ${width}x${height} into ${size.width}x${size.height}: a hires fix enlarges; ask for a larger size`,
    );
  }
  checkSize(size, limits);
}

/** The valid size closest to the one asked for, in about the same shape. */
export function nearestSize(size: Size, limits: SizeLimits): Size {
  const { sizeMultiple: step, maxPixels } = limits;
  const scale = Math.min(1, Math.sqrt(maxPixels / (size.width * size.height)));
  const round = (side: number) => Math.max(step, Math.round((side * scale) / step) * step);
  let [width, height] = [round(size.width), round(size.height)];
  // Very long shapes: the short side has reached its minimum, so the long one has to give way.
  if (width * height > maxPixels) {
    const fit = (other: number) => Math.max(step, Math.floor(maxPixels / other / step) * step);
    if (width >= height) width = fit(height);
    else height = fit(width);
  }
  return { width, height };
}

/** A size in the shape of an image, of about as many pixels as `area`, within the limits. */
export function sizeLike(shape: Size, area: Size, limits: SizeLimits): Size {
  const scale = Math.sqrt((area.width * area.height) / (shape.width * shape.height));
  return nearestSize({ width: shape.width * scale, height: shape.height * scale }, limits);
}

/** The largest size in the shape of an image within a budget of pixels; one multiple each way where that holds no more. */
export function sizeWithin(shape: Size, budget: Size, sizeMultiple: number): Size {
  const pixels = budget.width * budget.height;
  const scale = Math.sqrt(pixels / (shape.width * shape.height));
  const floor = (side: number) =>
    Math.max(sizeMultiple, Math.floor(side / sizeMultiple) * sizeMultiple);
  const [width, height] = [floor(shape.width * scale), floor(shape.height * scale)];
  // Where one side has reached its minimum, the other has to give way.
  return {
    width: Math.min(width, floor(pixels / height)),
    height: Math.min(height, floor(pixels / width)),
  };
}

/** How an image that keeps its own size is brought to what a model takes: scaled, then cut. */
interface OwnSize {
  /** Size of the image after scaling; as it came unless it has too many pixels. */
  scaled: Size;
  /** Size of the image after cutting. */
  cut: Size;
}

/**
 * How an image keeps its own size as far as a model lets it.
 *
 * Source: diffusers `Flux2KleinPipeline` and its `Flux2ImageProcessor`; `FluxKontextPipeline` for models that take a few
 * sizes only.
 *
 * @param size as it came
 * @param limits of the model
 * @returns both sizes
 * @throws {RangeError} when it is too small, or one side is much longer than the other
 */
export function keepOwnSize({ width, height }: Size, limits: ImageLimits): OwnSize {
  const { multiple, maxPixels, minSide, maxAspect, sizes } = limits;
  const [short, long] = [Math.min(width, height), Math.max(width, height)];
  if (short < minSide) {
    throw new RangeError(
      `Cannot use an image of ${width}x${height}: this model takes sides of at least ${minSide} pixels; send a larger one`,
    );
  }
  if (long > maxAspect * short) {
    throw new RangeError(
      `Cannot use an image of ${width}x${height}: for this model one side may be at most ${maxAspect} times the other; cut it first`,
    );
  }
  if (sizes) {
    // The reference takes the shape of the image as it would be in whole tokens.
    const whole = (side: number) => Math.max(multiple, side - side % multiple);
    const shape = whole(width) / whole(height);
    const distance = ([w, h]: readonly [number, number]) => Math.abs(shape - w / h);
    const nearest = sizes.reduce((best, size) => (distance(size) < distance(best) ? size : best));
    const scaled = { width: nearest[0], height: nearest[1] };
    return { scaled, cut: scaled };
  }
  const scale = width * height > maxPixels ? Math.sqrt(maxPixels / (width * height)) : 1;
  const scaled = { width: Math.floor(width * scale), height: Math.floor(height * scale) };
  const floor = (side: number) => Math.floor(side / multiple) * multiple;
  return { scaled, cut: { width: floor(scaled.width), height: floor(scaled.height) } };
}

/** How an image is kept whole: scaled, then filled up by its own reflections. */
interface WholeSize {
  /** Size of the image after scaling; as it came unless it is too large. */
  scaled: Size;
  /** Size with its reflections around it. */
  mirrored: Size;
  /** Whether these begin with its last pixels again: an image of less than a multiple has too few others. */
  isEdgeRepeated: boolean;
}

/** How much smaller an image is made at a time whose size, rounded up, still has too many pixels. */
const STEP_DOWN = 0.995;

/**
 * How a single image is kept whole, as far as a model does that.
 *
 * Source: diffusers `Flux3ImageProcessor`, its mode `fill`.
 *
 * @param size as it came
 * @param rules of the model, and most pixels that the machine makes
 * @returns both sizes; nothing where the model keeps none whole
 */
export function keepWhole(
  { width, height }: Size,
  { imageLimits, maxPixels: most }: Pick<ImageRules, "imageLimits" | "maxPixels">,
): WholeSize | undefined {
  if (!imageLimits?.alone) return undefined;
  const { multiple, alone: { minSide, maxSide, ...alone } } = imageLimits;
  const maxPixels = Math.max(minSide ** 2, Math.min(alone.maxPixels, most));
  const whole = (side: number) =>
    Math.min(maxSide, Math.max(minSide, Math.ceil(side / multiple) * multiple));
  let scale = Math.min(
    1,
    Math.sqrt(maxPixels / (width * height)),
    maxSide / Math.max(width, height),
  );
  for (;; scale *= STEP_DOWN) {
    const side = (length: number) => Math.max(1, roundHalfEven(length * scale));
    const scaled = { width: side(width), height: side(height) };
    const mirrored = { width: whole(scaled.width), height: whole(scaled.height) };
    if (mirrored.width * mirrored.height > maxPixels) continue;
    return { scaled, mirrored, isEdgeRepeated: Math.min(scaled.width, scaled.height) <= multiple };
  }
}

export type ImageRules = Pick<
  ModelInfo,
  "imageLimits" | "defaults" | "sizeMultiple" | "maxPixels" | "layers" | "givesAlpha"
>;

/**
 * The size at which a result is drawn for which none was asked: the image's own where the model keeps it, else the model's
 * pixels in its shape.
 */
export function sizeFromImage(image: Size, rules: ImageRules, isAlone = false): Size {
  const { imageLimits, defaults, layers } = rules;
  const like = (sizeMultiple = rules.sizeMultiple) =>
    sizeLike(image, defaults, { ...rules, sizeMultiple });
  if (!imageLimits) return like(layers?.shapeMultiple);
  const whole = isAlone && keepWhole(image, rules);
  if (whole) return whole.mirrored;
  const { cut } = keepOwnSize(image, imageLimits);
  return imageLimits.shapeMultiple ? like(imageLimits.shapeMultiple) : cut;
}

/** How an image is brought to the size of the result, or to a size of its own where the model takes that. */
export function fitOf(
  image: Size,
  result: Size,
  rules: ImageRules,
  { mode, isAlone = false }: { readonly mode?: FitMode | undefined; readonly isAlone?: boolean } =
    {},
): Fit {
  const { imageLimits, layers, givesAlpha } = rules;
  const how = imageLimits
    ? isAlone && keepWhole(image, rules) || keepOwnSize(image, imageLimits)
    : fitToResult(result, mode);
  return { ...how, ...((layers || givesAlpha) && { keepsAlpha: true }) };
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

/** The size of an image as it came, or smaller if it has too many pixels. */
export function wholeSize(
  { width, height }: Size,
  { maxPixels }: Pick<ImageRules, "maxPixels">,
): Size {
  if (width * height <= maxPixels) return { width, height };
  return sizeWithin({ width, height }, { width: maxPixels, height: 1 }, 1);
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
