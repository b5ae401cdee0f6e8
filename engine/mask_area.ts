/** The part of an image that is redrawn where a request wants only the area around its mask. */
import type { PipelineRequest } from "../models/mod.ts";
import type { Size } from "./types.ts";

/** A part of an image, in pixels. */
export interface Area extends Size {
  readonly left: number;
  readonly top: number;
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
