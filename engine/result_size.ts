/**
 * Sizes and rates of results: as a request asks for, or higher if it asks for that, too. Sizes far beyond those that a model
 * was made for are drawn at a size that it knows, and enlarged.
 */

import { crop, type PixelImage } from "../media/image.ts";
import { resize, type ResizeFilter } from "../media/resize.ts";
import { type Area, areaInside, edgesRepeated } from "./mask_area.ts";
import type { PipelineInfo, PipelineRequest } from "../models/mod.ts";
import { isRedrawn, mostImages } from "../models/pipeline/check_request.ts";
import type {
  GenerateRequest,
  Image,
  ModelInfo,
  SamplingSettings,
  Size,
  TaskType,
} from "./types.ts";

/** Most pixels of an enlarged result: frames of it are in memory as bytes and as f32. */
const MAX_PIXELS = 4096 * 4096;

/** How many times longer upscaling makes the sides of a result, where the request does not say. */
export const DEFAULT_UPSCALING = 4;

export type SizedRequest = Size & Pick<SamplingSettings, "enableUpscaling" | "upscalingScale">;

export function resultSize(
  { width, height, enableUpscaling, upscalingScale = DEFAULT_UPSCALING }: SizedRequest,
): Size {
  return enableUpscaling ? scaledSize({ width, height }, upscalingScale) : { width, height };
}

export function scaledSize({ width, height }: Size, scale: number): Size {
  return { width: width * scale, height: height * scale };
}

export function checkResultSize(request: SizedRequest): void {
  const { width, height } = resultSize(request);
  if (!request.enableUpscaling || width * height <= MAX_PIXELS) return;
  throw new RangeError(
    `Cannot upscale ${request.width}x${request.height} to ${width}x${height}: results have at most ${MAX_PIXELS} pixels; ` +
      "ask for a smaller size or a smaller scale",
  );
}

type InterpolatedRequest =
  & Pick<SamplingSettings, "enableFrameInterpolation" | "frameInterpolationExp">
  & { readonly numFrames: number };

/** How many times as many frames follow the first one, with those between. */
function framesBetween(
  { enableFrameInterpolation, frameInterpolationExp = 1 }: InterpolatedRequest,
): number {
  return enableFrameInterpolation ? 2 ** frameInterpolationExp : 1;
}

/** Frames per second of a video with frames between, which moves as fast as without them. */
export function resultRate(fps: number, request: InterpolatedRequest): number {
  return request.numFrames > 1 ? fps * framesBetween(request) : fps;
}

/** Frames of a video with those between: there are none after the last. */
export function resultFrames(request: InterpolatedRequest): number {
  return (request.numFrames - 1) * framesBetween(request) + 1;
}

/** The number of frames that a model can make and that is nearest to another. */
export function nearestFrames(
  frames: number,
  { frameMultiple: step }: Pick<ModelInfo, "frameMultiple">,
): number {
  return Math.round((frames - 1) / step) * step + 1;
}

/** Results of up to so many times the largest native square are near enough to be drawn as they are asked for. */
const NEAR = 2;

export type NativeSizes = Pick<ModelInfo, "nativeSides" | "sizeMultiple">;

/** The native size of the nearest shape at which a model draws a much larger one; nothing if it draws what is asked. */
export function drawnSize(
  { width, height }: Size,
  { nativeSides, sizeMultiple }: NativeSizes,
): Size | undefined {
  if (!nativeSides || width * height <= NEAR * nativeSides.most ** 2) return undefined;
  const most = Math.max(sizeMultiple, Math.floor(nativeSides.most / sizeMultiple) * sizeMultiple);
  const sides = [most];
  for (let side = most - sizeMultiple; side >= nativeSides.least; side -= sizeMultiple) {
    sides.push(side);
  }
  const sizes = sides.flatMap((width) => sides.map((height) => ({ width, height })));
  const stretch = (size: Size) => Math.abs(Math.log(size.width / size.height * height / width));
  // Of two in the same shape the first is the larger one.
  return sizes.reduce((best, size) => (stretch(size) < stretch(best) - 1e-9 ? size : best));
}

/** A request at the size at which it is drawn, with the images and frames that have the size of the result. */
export function shrinkRequest(
  request: PipelineRequest,
  size: Size,
  { imageLimits }: Pick<PipelineInfo, "imageLimits">,
  area?: Area,
): PipelineRequest {
  const { images, video, mask, control, referenceMasks, width, height } = request;
  const shrink = (data: Uint8Array, filter?: ResizeFilter) => {
    const whole = { width, height, data };
    if (!area) return resizePixels(data, whole, size, filter);
    const part = crop(whole, area.left, area.top, area.width, area.height);
    const inside = areaInside(area, size);
    return edgesRepeated(resizePixels(part.data, part, inside, filter), inside, size);
  };
  return {
    ...request,
    ...size,
    ...(images && (!imageLimits || area) && {
      images: images.map((image, i) =>
        imageLimits && i > 0 ? image : { ...size, data: shrink(image.data) }
      ),
    }),
    ...(video && { video: video.map((frame) => shrink(frame)) }),
    ...(control && { control: control.map(({ data }) => ({ ...size, data: shrink(data) })) }),
    ...(mask && { mask: mask.map((frame) => shrinkMask(frame, shrink)) }),
    // Those of the whole result are brought to the size of tokens anyway.
    ...(referenceMasks && area && {
      referenceMasks: referenceMasks.map(({ data }) => ({ ...size, data: shrink(data) })),
    }),
  };
}

/** Brings a mask, a byte for each pixel, from one size to another. */
function shrinkMask(
  mask: Uint8Array,
  shrink: (data: Uint8Array, filter: ResizeFilter) => Uint8Array,
): Uint8Array<ArrayBuffer> {
  const data = Uint8Array.from({ length: mask.length * 3 }, (_, i) => mask[Math.floor(i / 3)]!);
  const small = shrink(data, "bilinear");
  return Uint8Array.from({ length: small.length / 3 }, (_, i) => small[3 * i]!);
}

/** Brings pixels from one size to another: nothing is cut off, so that a given image and the result agree. */
export function resizePixels(
  data: Uint8Array,
  from: Size,
  to: Size,
  filter?: ResizeFilter,
): Uint8Array<ArrayBuffer> {
  const channels = data.length / (from.width * from.height);
  const image = { ...from, data, ...(channels === 4 && { channels }) } as PixelImage;
  return resize(image, to.width, to.height, filter).data as Uint8Array<ArrayBuffer>;
}

/** What was drawn of an area, without the edges around it, of the size that the area has. */
export function areaPixels(data: Uint8Array, drawn: Size, area: Area): Uint8Array<ArrayBuffer> {
  const { left, top, width, height } = areaInside(area, drawn);
  const inside = crop({ ...drawn, data }, left, top, width, height);
  return resizePixels(inside.data, inside, area);
}

/** The middle of an image that may be enlarged since: what lay in a frame before its edges were mirrored. */
export function middleOf(
  data: Uint8Array,
  drawn: Size,
  middle: Size,
  scale: number,
): Uint8Array<ArrayBuffer> {
  const left = Math.floor((drawn.width - middle.width) / 2) * scale;
  const top = Math.floor((drawn.height - middle.height) / 2) * scale;
  const { width, height } = scaledSize(middle, scale);
  const image = { ...scaledSize(drawn, scale), data };
  return crop(image, left, top, width, height).data as Uint8Array<ArrayBuffer>;
}

export const IMAGE_TASKS: readonly TaskType[] = ["T2I", "TI2I"];

/**
 * What the model's pipeline is asked for: the task that follows from the inputs, where the request leaves it open, and
 * the model's own settings for that task.
 */
export function toPipelineRequest(request: GenerateRequest, info: ModelInfo): PipelineRequest {
  const { taskType, loras: _loras, cropSize: _cropSize, audioAlone: _audioAlone, ...named } =
    request;
  const { strength: asked, ...others } = named;
  const { images = [], video = [], mask = [], references = [], ...settings } = others;
  const { width, height } = settings;
  const { defaults } = info;
  const task = taskType ?? inferTask(request, info);
  if (!info.supportedTasks.includes(task)) {
    throw new RangeError(
      `Cannot do ${task}: this model does ${info.supportedTasks.join(", ")}; choose one of them`,
    );
  }
  const most = mostImages(task, info);
  if (images.length > most) {
    throw new RangeError(
      `Cannot use ${images.length} images: this model takes ${most} at a time`,
    );
  }
  const isInpainting = task === "TI2I" && mask.length > 0 && info.inpainting !== undefined;
  const own = {
    ...defaults,
    strength: 1,
    ...info.taskDefaults[task],
    ...(isInpainting && info.inpainting),
  };
  const isImage = IMAGE_TASKS.includes(task);
  const numFrames = request.numFrames ??
    (isImage ? 1 : task === "V2V" ? video.length : own.numFrames);
  if (isImage && numFrames !== 1) {
    throw new RangeError(
      `Cannot do ${task} with ${numFrames} frames: an image has 1; leave numFrames out, or choose a task that makes a video`,
    );
  }
  const strength = asked ?? own.strength;
  if (!(strength > 0 && strength <= 1)) {
    throw new RangeError(`Cannot use strength ${strength}: it must be above 0 and at most 1`);
  }
  const pixels = (image: Image) => pixelsOf(image, width, height);
  if (!info.imageLimits) images.forEach(pixels);
  return {
    ...settings,
    task,
    numFrames,
    negativePrompt: settings.negativePrompt ?? defaults.negativePrompt,
    ...(images.length === 0 ? {} : { images }),
    ...(video.length === 0 ? {} : { video: video.map(pixels) }),
    ...(mask.length === 0 ? {} : { mask: mask.map((image) => firstChannel(pixels(image))) }),
    ...(references.length === 0 ? {} : { references }),
    ...(task === "V2V" && isRedrawn(info) || isInpainting ||
        info.taskDefaults[task]?.strength !== undefined
      ? { strength }
      : {}),
  };
}

/** A video is changed, an image is changed or goes on as a video, and without either the text is all there is. */
function inferTask(
  { images = [], video = [], numFrames }: GenerateRequest,
  { defaults, supportedTasks }: ModelInfo,
): TaskType {
  if (video.length > 0) return "V2V";
  const isImage = (numFrames ?? defaults.numFrames) === 1;
  if (images.length === 0) return isImage ? "T2I" : "T2V";
  return isImage && supportedTasks.includes("TI2I") ? "TI2I" : "I2V";
}

function firstChannel(rgb: Uint8Array): Uint8Array {
  return Uint8Array.from({ length: rgb.length / 3 }, (_, i) => rgb[3 * i]!);
}

function pixelsOf(image: Image, width: number, height: number): Uint8Array {
  if (image.width !== width || image.height !== height) {
    throw new RangeError(
      `Cannot start from an image of ${image.width}x${image.height}: the result has ${width}x${height}; scale it first`,
    );
  }
  return image.data;
}
