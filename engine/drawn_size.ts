/** Sizes beyond those that a model was made for: it draws one that it knows, which is then enlarged. */
import { resize } from "../media/resize.ts";
import type { PipelineInfo, PipelineRequest } from "../models/mod.ts";
import type { Image, ModelInfo, Size } from "./types.ts";

/** Results of up to so many times the largest native square are near enough to be drawn as they are asked for. */
const NEAR = 2;

/** What a model says of the sizes that it was made for. */
export type NativeSizes = Pick<ModelInfo, "nativeSides" | "sizeMultiple">;

/**
 * The size at which a model draws what is asked for in a much larger one.
 *
 * @param size as asked for, in pixels
 * @returns the native size whose shape is the nearest; nothing where the model draws what is asked for
 */
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
): PipelineRequest {
  const { images, video, mask, control } = request;
  const shrink = (data: Uint8Array) => resizePixels(data, request, size);
  return {
    ...request,
    ...size,
    ...(images && !imageLimits &&
      { images: images.map(({ data }) => ({ ...size, data: shrink(data) })) }),
    ...(video && { video: video.map(shrink) }),
    ...(control && { control: { ...size, data: shrink(control.data) } }),
    ...(mask && { mask: mask.map((frame) => resizeMask(frame, request, size)) }),
  };
}

/** Brings a mask, a byte for each pixel, from one size to another. */
function resizeMask(mask: Uint8Array, from: Size, to: Size): Uint8Array<ArrayBuffer> {
  const data = Uint8Array.from({ length: mask.length * 3 }, (_, i) => mask[Math.floor(i / 3)]!);
  const { width, height } = from;
  const small = resize({ width, height, data }, to.width, to.height, "bilinear");
  return Uint8Array.from({ length: to.width * to.height }, (_, i) => small.data[3 * i]!);
}

/** Brings pixels from one size to another: nothing is cut off, so that a given image and the result agree. */
export function resizePixels(data: Uint8Array, from: Size, to: Size): Uint8Array<ArrayBuffer> {
  const image: Image = { width: from.width, height: from.height, data };
  return resize(image, to.width, to.height).data as Uint8Array<ArrayBuffer>;
}
