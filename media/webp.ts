/** WebP files by libwebp: RFC 9649, sections 2 (container) and 3.4 (VP8L); RFC 6386, section 9.1 (VP8 frame header). */

import decoderFactory from "@jsquash/webp/codec/dec/webp_dec.js";
import decoderWasm from "@jsquash/webp/codec/dec/webp_dec.wasm" with { type: "bytes" };
import encoderFactory from "@jsquash/webp/codec/enc/webp_enc_simd.js";
import encoderWasm from "@jsquash/webp/codec/enc/webp_enc_simd.wasm" with { type: "bytes" };
import { defaultOptions } from "@jsquash/webp/meta.js";
import { checkEncodable, ImageError, type PixelImage, toRgb, toRgba } from "./image.ts";
import { decodeWith, wasmCodec } from "./wasm_codec.ts";

interface WebpHeader {
  /** Pixels per row, of the largest image or canvas in the file. */
  readonly width: number;
  readonly height: number;
  readonly alpha: boolean;
  readonly animated: boolean;
  readonly exif?: Uint8Array;
  readonly profile?: Uint8Array;
}

const MAX_SIDE = 16_383;

/** Bytes of an ANMF chunk before the chunks of its image. */
const FRAME_HEAD = 16;

/** Bits of the flags in a VP8X chunk. */
const FLAG_ANIMATION = 0x02;
const FLAG_EXIF = 0x08;
const FLAG_ALPHA = 0x10;

const decoder = wasmCodec<{ decode(bytes: Uint8Array): ImageData | null }>(
  decoderFactory,
  decoderWasm,
);

const encoder = wasmCodec<{
  encode(
    rgba: Uint8Array,
    width: number,
    height: number,
    options: typeof defaultOptions,
  ): Uint8Array | null;
}>(encoderFactory, encoderWasm);

/** Encodes an image of at most 16383 pixels a side as WebP in a quality of 0 to 100, at which it is still lossy. */
export async function encodeWebp(
  image: PixelImage,
  quality: number,
  exif?: Uint8Array,
): Promise<Uint8Array<ArrayBuffer>> {
  checkEncodable(image, "WebP", MAX_SIDE);
  const { width, height } = image;
  const { data } = toRgba(image);
  const file = await encoder.run((codec) => {
    const view = codec.encode(data, width, height, { ...defaultOptions, quality });
    return view === null ? null : new Uint8Array(view);
  });
  if (file === null) {
    throw new Error(`Cannot encode WebP: the encoder gave no file for ${width}x${height} pixels`);
  }
  return exif ? appendExif(file, exif) : file;
}

/** Decodes a still WebP file as stored, without its EXIF orientation. Check the size first with {@link scanWebp}. */
export async function decodeWebp(bytes: Uint8Array, alpha: boolean): Promise<PixelImage> {
  const image = await decodeWith(decoder, "WebP", (codec) => codec.decode(bytes));
  return alpha ? image : toRgb(image);
}

export function scanWebp(bytes: Uint8Array): WebpHeader {
  if (tagAt(bytes, 0) !== "RIFF" || tagAt(bytes, 8) !== "WEBP") {
    throw new ImageError("Cannot read WebP: the file does not begin with RIFF and WEBP");
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = 8 + view.getUint32(4, true);
  if (end > bytes.length) {
    throw new ImageError(
      `Cannot read WebP: the file is truncated, it has ${bytes.length} of ${end} bytes`,
    );
  }
  let width = 0;
  let height = 0;
  let alpha = false;
  let animated = false;
  let exif: Uint8Array | undefined;
  let profile: Uint8Array | undefined;
  const grow = (w: number, h: number): void => {
    width = Math.max(width, w);
    height = Math.max(height, h);
  };
  for (let offset = 12; offset + 8 <= end;) {
    const tag = tagAt(bytes, offset);
    const length = view.getUint32(offset + 4, true);
    const start = offset + 8;
    if (start + length > end) {
      throw new ImageError(`Cannot read WebP: its ${tag.trim()} chunk reaches past the end`);
    }
    const size = imageSize(tag, bytes.subarray(start, start + length));
    if (size !== undefined) {
      alpha ||= size.alpha;
      grow(size.width, size.height);
    }
    if (tag === "VP8X" && length >= 10) {
      const flags = bytes[start]!;
      alpha ||= (flags & FLAG_ALPHA) !== 0;
      animated ||= (flags & FLAG_ANIMATION) !== 0;
      grow(uint24(bytes, start + 4) + 1, uint24(bytes, start + 7) + 1);
    } else if (tag === "ALPH") {
      alpha = true;
    } else if (tag === "ANMF") {
      animated = true;
      checkFrame(bytes.subarray(start, start + length), width, height);
    } else if (tag === "EXIF" && exif === undefined) {
      exif = bytes.subarray(start, start + length);
    } else if (tag === "ICCP" && profile === undefined) {
      profile = bytes.subarray(start, start + length);
    }
    offset = start + length + (length & 1);
  }
  if (width === 0 || height === 0) {
    throw new ImageError("Cannot read WebP: the file has no image in it");
  }
  return { width, height, alpha, animated, ...(exif && { exif }), ...(profile && { profile }) };
}

/** A frame of an animation lies on the canvas, and its image has the size of the frame. */
function checkFrame(frame: Uint8Array, canvasWidth: number, canvasHeight: number): void {
  if (frame.length < 24) {
    throw new ImageError("Cannot read WebP: a frame of its animation is truncated");
  }
  const [left, top] = [2 * uint24(frame, 0), 2 * uint24(frame, 3)];
  const [width, height] = [uint24(frame, 6) + 1, uint24(frame, 9) + 1];
  if (left + width > canvasWidth || top + height > canvasHeight) {
    throw new ImageError(
      `Cannot read WebP: a frame of ${width}x${height} at (${left}, ${top}) does not lie on its ` +
        `${canvasWidth}x${canvasHeight} canvas`,
    );
  }
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  for (let offset = FRAME_HEAD; offset + 8 <= frame.length;) {
    const length = view.getUint32(offset + 4, true);
    const size = imageSize(tagAt(frame, offset), frame.subarray(offset + 8, offset + 8 + length));
    if (size !== undefined && (size.width !== width || size.height !== height)) {
      throw new ImageError(
        `Cannot read WebP: a frame of ${width}x${height} holds an image of ` +
          `${size.width}x${size.height}`,
      );
    }
    offset += 8 + length + (length & 1);
  }
}

/** The size that a chunk of pixels gives; nothing for other chunks. */
function imageSize(
  tag: string,
  data: Uint8Array,
): { width: number; height: number; alpha: boolean } | undefined {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  if (tag === "VP8L" && data.length >= 5) {
    const bits = view.getUint32(1, true);
    return {
      width: (bits & 0x3fff) + 1,
      height: ((bits >> 14) & 0x3fff) + 1,
      alpha: (bits & (1 << 28)) !== 0,
    };
  }
  if (tag === "VP8 " && data.length >= 10) {
    const [width, height] = [view.getUint16(6, true), view.getUint16(8, true)];
    return { width: width & 0x3fff, height: height & 0x3fff, alpha: false };
  }
  return undefined;
}

function tagAt(bytes: Uint8Array, offset: number): string {
  return String.fromCharCode(...bytes.subarray(offset, offset + 4));
}

function uint24(bytes: Uint8Array, offset: number): number {
  return bytes[offset]! | (bytes[offset + 1]! << 8) | (bytes[offset + 2]! << 16);
}

/** Adds an EXIF chunk, and the VP8X chunk that must announce it where the file has none. */
function appendExif(file: Uint8Array, exif: Uint8Array): Uint8Array<ArrayBuffer> {
  const { width, height, alpha } = scanWebp(file);
  const extended = tagAt(file, 12) === "VP8X";
  const body = file.subarray(12);
  const padded = exif.length + (exif.length & 1);
  const out = new Uint8Array(file.length + (extended ? 0 : 18) + 8 + padded);
  const view = new DataView(out.buffer);
  out.set(file.subarray(0, 12));
  view.setUint32(4, out.length - 8, true);
  let offset = 12;
  if (!extended) {
    out.set(new TextEncoder().encode("VP8X"), offset);
    view.setUint32(offset + 4, 10, true);
    view.setUint32(offset + 8, alpha ? FLAG_ALPHA : 0, true);
    view.setUint32(offset + 12, width - 1, true);
    view.setUint32(offset + 15, height - 1, true);
    offset += 18;
  }
  out.set(body, offset);
  out[20] = out[20]! | FLAG_EXIF;
  offset += body.length;
  out.set(new TextEncoder().encode("EXIF"), offset);
  view.setUint32(offset + 4, exif.length, true);
  out.set(exif, offset + 8);
  return out;
}
