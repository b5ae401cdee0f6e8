/** JPEG files: in by libjpeg, with the samples of Pillow; out by Deno, at full chroma resolution. Source: ITU-T T.81, annex B. */

import { concatBytes } from "./png.ts";
import decoderFactory from "@jsquash/jpeg/codec/dec/mozjpeg_dec.js";
import decoderWasm from "@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm" with { type: "bytes" };
import { EXIF_PREFIX, startsWith } from "./exif.ts";
import { checkEncodable, ImageError, type RgbImage, toRgb, toRgba } from "./image.ts";
import { decodeWith, wasmCodec } from "./wasm_codec.ts";

interface JpegHeader {
  readonly width: number;
  readonly height: number;
  /** 1 grey, 3 colour, 4 CMYK. */
  readonly components: number;
  readonly exif?: Uint8Array;
  readonly profile?: Uint8Array;
}

const SOI = 0xd8;
const EOI = 0xd9;
const SOS = 0xda;
const APP0 = 0xe0;
const APP1 = 0xe1;
const APP2 = 0xe2;

const MAX_SIDE = 65_535;

/** Most scans of a file: encoders write about ten, and each is a walk over the whole image. */
const MAX_SCANS = 100;
/** In front of two bytes: the place of a part of the profile, from 1 on, and how many there are. */
const PROFILE_PREFIX = "ICC_PROFILE\0";

/** Most bytes of an EXIF structure: it is one segment with the marker's length and {@link EXIF_PREFIX}. */
export const MAX_EXIF_BYTES: number = 0xffff - 2 - EXIF_PREFIX.length;

const decoder = wasmCodec<{
  decode(bytes: Uint8Array, upright: boolean): ImageData | null;
}>(decoderFactory, decoderWasm);

/** Encodes an opaque image of at most 65535 pixels a side as baseline JPEG, 4:4:4, in a quality of 0 to 100. */
export async function encodeJpeg(
  image: RgbImage,
  quality: number,
  exif?: Uint8Array,
): Promise<Uint8Array<ArrayBuffer>> {
  checkEncodable(image, "JPEG", MAX_SIDE);
  const { width, height } = image;
  const pixels = new ImageData(new Uint8ClampedArray(toRgba(image).data), width, height);
  const bitmap = await createImageBitmap(pixels);
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("bitmaprenderer")!.transferFromImageBitmap(bitmap);
  const blob = await canvas.convertToBlob({ type: "image/jpeg", quality: quality / 100 });
  const file = await blob.bytes();
  return exif ? insertExif(file, exif) : file;
}

/** Decodes a grey or colour JPEG file as stored, without its EXIF orientation; check its size first. */
export async function decodeJpeg(bytes: Uint8Array): Promise<RgbImage> {
  return toRgb(await decodeWith(decoder, "JPEG", (codec) => codec.decode(bytes, false)));
}

/** Walks the markers of a JPEG file from start to end, without decoding. */
export function scanJpeg(bytes: Uint8Array): JpegHeader {
  if (bytes[0] !== 0xff || bytes[1] !== SOI) {
    throw new ImageError("Cannot read JPEG: the file does not begin with the JPEG marker");
  }
  let frame: { width: number; height: number; components: number } | undefined;
  let exif: Uint8Array | undefined;
  const profile = new Map<number, Uint8Array>();
  let scans = 0;
  let offset = 2;
  for (;;) {
    // What lies before the next marker is compressed data, or padding that decoders skip.
    offset = bytes.indexOf(0xff, offset);
    if (offset < 0) break;
    const marker = bytes[offset + 1];
    if (marker === undefined) break;
    if (marker === 0xff) {
      offset += 1;
      continue;
    }
    offset += 2;
    if (marker === EOI) {
      if (frame === undefined) {
        throw new ImageError("Cannot read JPEG: the file has no image in it");
      }
      const parts = [...profile].sort(([a], [b]) => a - b).map(([, part]) => part);
      return {
        ...frame,
        ...(exif && { exif }),
        ...(parts.length > 0 && { profile: concatBytes(parts) }),
      };
    }
    // A stuffed zero, TEM, the restart markers and a second SOI stand alone.
    if (marker <= 0x01 || (marker >= 0xd0 && marker <= SOI)) continue;
    const length = (bytes[offset]! << 8) | bytes[offset + 1]!;
    const segment = bytes.subarray(offset + 2, offset + length);
    if (offset + length > bytes.length || length < 2) break;
    if (isFrame(marker)) {
      if (frame !== undefined) {
        throw new ImageError("Cannot read JPEG: the file has more than one frame");
      }
      frame = readFrame(segment);
    } else if (marker === APP1 && exif === undefined && startsWith(segment, EXIF_PREFIX)) {
      exif = segment.subarray(EXIF_PREFIX.length);
    } else if (marker === APP2 && startsWith(segment, PROFILE_PREFIX)) {
      const place = segment[PROFILE_PREFIX.length] ?? 0;
      profile.set(place, segment.subarray(PROFILE_PREFIX.length + 2));
    } else if (marker === SOS) {
      if (frame === undefined) {
        throw new ImageError("Cannot read JPEG: a scan comes before the frame that describes it");
      }
      if (++scans > MAX_SCANS) {
        throw new ImageError(
          `Cannot read JPEG: it has more than ${MAX_SCANS} scans; save it anew, baseline or ` +
            "progressive",
        );
      }
    }
    offset += length;
  }
  throw new ImageError(
    `Cannot read JPEG: the file is truncated, it ends after ${bytes.length} bytes without the ` +
      "end marker",
  );
}

/** SOF0 to SOF15, without DHT, JPG and DAC, which lie between them. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
}

function readFrame(segment: Uint8Array): { width: number; height: number; components: number } {
  if (segment.length < 6) throw new ImageError("Cannot read JPEG: its frame header is too short");
  const view = new DataView(segment.buffer, segment.byteOffset, segment.byteLength);
  const height = view.getUint16(1);
  const width = view.getUint16(3);
  const components = view.getUint8(5);
  if (width === 0 || height === 0) {
    throw new ImageError(`Cannot read JPEG: its frame header gives a size of ${width}x${height}`);
  }
  return { width, height, components };
}

/** Puts EXIF where readers look for it: right after the start, or after JFIF's own segment. */
function insertExif(file: Uint8Array, exif: Uint8Array): Uint8Array<ArrayBuffer> {
  const length = 2 + EXIF_PREFIX.length + exif.length;
  if (exif.length > MAX_EXIF_BYTES) {
    throw new RangeError(
      `Cannot encode JPEG: ${exif.length} bytes of EXIF are more than one segment holds ` +
        `(${MAX_EXIF_BYTES}); shorten the text or use PNG`,
    );
  }
  const hasJfif = file[2] === 0xff && file[3] === APP0;
  const at = hasJfif ? 4 + ((file[4]! << 8) | file[5]!) : 2;
  const out = new Uint8Array(file.length + length + 2);
  out.set(file.subarray(0, at));
  out.set([0xff, APP1, length >> 8, length & 255], at);
  out.set(new TextEncoder().encode(EXIF_PREFIX), at + 4);
  out.set(exif, at + 4 + EXIF_PREFIX.length);
  out.set(file.subarray(at), at + 2 + length);
  return out;
}
