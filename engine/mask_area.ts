/** The part of an image that is redrawn where a request wants only the area around its mask. */
import { blurredEdge } from "../media/mask.ts";
import type { PipelineRequest } from "../models/mod.ts";
import type { Size } from "./types.ts";

/** A part of an image, in pixels. */
export interface Area extends Size {
  readonly left: number;
  readonly top: number;
}

/** The area that a request wants, around its mask with what a blur adds. Source: WebUI, which blurs before. */
export function requestedArea(
  { mask, maskBlur = 0, paddingMaskCrop, ...image }: PipelineRequest,
  size: Size,
): Area | undefined {
  if (!mask || paddingMaskCrop === undefined) return undefined;
  const painted = maskBlur > 0
    ? Uint8Array.from(
      blurredEdge(mask[0]!, image, maskBlur, { isDoubled: false }),
      // Bytes there.
      (share) => Math.round(255 * share),
    )
    : mask[0]!;
  return maskArea(painted, image, size, paddingMaskCrop);
}

/** Where an area lies in the size at which it is drawn: as large as its shape lets it be, in the middle. */
export function areaInside(area: Size, size: Size): Area {
  const isWide = size.width / size.height < area.width / area.height;
  const width = isWide ? size.width : Math.floor(area.width * size.height / area.height);
  const height = isWide ? Math.floor(area.height * size.width / area.width) : size.height;
  const before = (whole: number, part: number) => Math.floor(whole / 2) - Math.floor(part / 2);
  return { left: before(size.width, width), top: before(size.height, height), width, height };
}

/** Pixels in the middle of a size, whose edges are repeated. Source: diffusers `VaeImageProcessor._resize_and_fill`. */
export function edgesRepeated(
  data: Uint8Array,
  { left, top, width, height }: Area,
  size: Size,
): Uint8Array<ArrayBuffer> {
  const filled = new Uint8Array(size.width * size.height * 3);
  const nearest = (at: number, count: number) => Math.min(count - 1, Math.max(0, at));
  for (let y = 0, to = 0; y < size.height; y++) {
    const row = nearest(y - top, height) * width;
    for (let x = 0; x < size.width; x++, to += 3) {
      const from = (row + nearest(x - left, width)) * 3;
      for (let c = 0; c < 3; c++) filled[to + c] = data[from + c]!;
    }
  }
  return filled;
}

/**
 * The box around all that a mask paints, with pixels around it, made longer to the shape of `size` as far as the image goes.
 * Source: diffusers `VaeImageProcessor.get_crop_region`.
 */
export function maskArea(mask: Uint8Array, image: Size, size: Size, padding: number): Area {
  const rows = new Uint8Array(image.height);
  const columns = new Uint8Array(image.width);
  mask.forEach((byte, i) => {
    rows[Math.floor(i / image.width)]! |= byte;
    columns[i % image.width]! |= byte;
  });
  let [left, right] = spanOf(columns, padding);
  let [top, bottom] = spanOf(rows, padding);
  const shape = size.width / size.height;
  if ((right - left) / (bottom - top) > shape) {
    [top, bottom] = lengthened(top, bottom, (right - left) / shape, image.height);
  } else {
    [left, right] = lengthened(left, right, (bottom - top) * shape, image.width);
  }
  return { left, top, width: right - left, height: bottom - top };
}

/** From before the first byte that is not zero to behind the last. */
function spanOf(bytes: Uint8Array, padding: number): [start: number, end: number] {
  const first = bytes.findIndex((byte) => byte > 0);
  const last = bytes.findLastIndex((byte) => byte > 0);
  return [Math.max(0, first - padding), Math.min(bytes.length, last + 1 + padding)];
}

/** As long as wanted, on both sides alike, but for what the image lacks on one. */
function lengthened(start: number, end: number, wanted: number, most: number): [number, number] {
  const length = Math.min(most, Math.max(end - start, Math.trunc(wanted)));
  const first = start - Math.floor((length - (end - start)) / 2);
  const begin = Math.min(Math.max(0, first), most - length);
  return [begin, begin + length];
}

/** The first image of a request with other pixels in an area. */
export function placed(
  pixels: Uint8Array,
  { left, top, width, height }: Area,
  request: PipelineRequest,
): Uint8Array<ArrayBuffer> {
  const whole = Uint8Array.from(request.images![0]!.data);
  for (let y = 0; y < height; y++) {
    const row = pixels.subarray(y * width * 3, (y + 1) * width * 3);
    whole.set(row, ((top + y) * request.width + left) * 3);
  }
  return whole;
}
