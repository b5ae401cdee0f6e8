/** Bytes of unknown origin to pixels: what kind of file it is, how large, and only then decoding. */

import { adobeRgb, type ColorSpace, toSrgbPixels } from "./color/color_space.ts";
import { pngColors } from "./color/file_colors.ts";
import { readIccProfile } from "./color/icc.ts";
import { applyOrientation, readExif, swapsSides } from "./exif.ts";
import { scanGif } from "./gif.ts";
import { ImageError, isOpaque, type PixelImage, toRgb } from "./image.ts";
import { decodeJpeg, scanJpeg } from "./jpeg.ts";
import { pngChunks } from "./png.ts";
import { decodePng, readPngHeader } from "./png_decode.ts";
import { decodeWebp, scanWebp } from "./webp.ts";

export type ImageFormat = "png" | "jpeg" | "webp" | "gif" | "bmp";

/** Limits of {@link inspectImage} and {@link decodeImage}. */
export interface DecodeOptions {
  /** Largest width times height that is decoded; {@link DEFAULT_MAX_PIXELS} by default. */
  readonly maxPixels?: number | undefined;
}

export interface ImageInfo {
  readonly format: ImageFormat;
  /** Pixels per row, turned upright by EXIF. */
  readonly width: number;
  /** Number of rows, turned upright by EXIF. */
  readonly height: number;
}

/** 8192 x 8192: what an image may have unless the caller says otherwise. */
const DEFAULT_MAX_PIXELS = 2 ** 26;

/** First bytes of formats that are often sent and not read here, with their names. */
const UNREADABLE: readonly (readonly [RegExp, string])[] = [
  [/^.{4}ftypavi[fs]/s, "AVIF"],
  [/^.{4}ftyp(?:hei[cxms]|hev[cx]|mif1|msf1)/s, "HEIC"],
  [/^.{4}ftyp/s, "an MP4 or QuickTime video"],
  [/^(?:II\*\0|MM\0\*)/, "TIFF"],
  [/^(?:\xff\n|.{4}JXL )/s, "JPEG XL"],
  [/^%PDF/, "PDF"],
  [/^(?:\xef\xbb\xbf)?\s*<(?:svg|\?xml)/, "SVG or XML"],
  [/^(?:\xef\xbb\xbf)?\s*<(?:!doctype|html)/i, "an HTML page"],
  [/^.E\xdf\xa3/s, "a WebM or Matroska video"],
  [/^(?:PK|.\x8b)/s, "a compressed archive"],
];

/** Tells a file's format from its first 32 bytes; names and content types are not looked at. */
export function sniffImage(bytes: Uint8Array): ImageFormat {
  const start = String.fromCharCode(...bytes.subarray(0, 32));
  if (start.startsWith("\x89PNG\r\n\x1a\n")) return "png";
  if (start.startsWith("\xff\xd8\xff")) return "jpeg";
  if (/^RIFF.{4}WEBP/s.test(start)) return "webp";
  if (/^GIF8[79]a/.test(start)) return "gif";
  if (start.startsWith("BM") && bytes.length >= 26) return "bmp";
  if (bytes.length === 0) throw new ImageError("Cannot read image: the file is empty");
  const looksLike = UNREADABLE.find(([pattern]) => pattern.test(start))?.[1];
  throw new ImageError(
    `Cannot read image: the file ${
      looksLike === undefined ? "is of no known format" : `looks like ${looksLike}`
    }; send PNG, JPEG, WebP, GIF or BMP`,
  );
}

/** Reads format and size from the container, without decoding. Costs no memory. */
export function inspectImage(bytes: Uint8Array, options: DecodeOptions = {}): ImageInfo {
  const format = sniffImage(bytes);
  const { width, height, exif } = CONTAINER_READERS[format](bytes);
  const { maxPixels = DEFAULT_MAX_PIXELS } = options;
  if (width * height > maxPixels) {
    throw new ImageError(
      `Cannot read image: it is ${width}x${height}, which is ${width * height} pixels, and at ` +
        `most ${maxPixels} are allowed; send a smaller one`,
    );
  }
  const isTurned = exif !== undefined && swapsSides(readExif(exif).orientation ?? 1);
  return isTurned ? { format, width: height, height: width } : { format, width, height };
}

/** Decodes a file: upright by EXIF, the first image of an animation, grey and palettes as RGB, other colours as sRGB. */
export async function decodeImage(
  bytes: Uint8Array,
  options: DecodeOptions = {},
): Promise<PixelImage> {
  const { format, width, height } = inspectImage(bytes, options);
  const space = COLORS[format](bytes);
  const stored = await DECODERS[format](bytes);
  const image = space ? toSrgbPixels(stored, space) : stored;
  if (image.width !== width || image.height !== height) {
    throw new ImageError(
      `Cannot read image: its header says ${width}x${height}, and it is ` +
        `${image.width}x${image.height}`,
    );
  }
  return image;
}

/** What the readers of the containers find: the size as stored, and what says how to turn it. */
interface Container {
  readonly width: number;
  readonly height: number;
  readonly exif?: Uint8Array | undefined;
}

const CONTAINER_READERS: Readonly<Record<ImageFormat, (bytes: Uint8Array) => Container>> = {
  png: (bytes) => ({ ...readPngHeader(bytes), exif: pngExif(bytes) }),
  jpeg: scanJpeg,
  webp: scanWebp,
  gif: scanGif,
  bmp: readBmpSize,
};

const COLORS: Readonly<Record<ImageFormat, (bytes: Uint8Array) => ColorSpace | undefined>> = {
  png: pngColors,
  jpeg: (bytes) => profileColors(scanJpeg(bytes)),
  webp: (bytes) => profileColors(scanWebp(bytes)),
  gif: () => undefined,
  bmp: bmpColors,
};

/** What a profile says, else EXIF. */
function profileColors(
  { profile, exif }: { readonly profile?: Uint8Array; readonly exif?: Uint8Array },
): ColorSpace | undefined {
  if (profile) return readIccProfile(profile);
  return exif && readExif(exif).isAdobeRgb ? adobeRgb() : undefined;
}

const DECODERS: Readonly<Record<ImageFormat, (bytes: Uint8Array) => Promise<PixelImage>>> = {
  png: (bytes) => Promise.resolve(upright(decodePng(bytes), pngExif(bytes))),
  jpeg: async (bytes) => {
    const { components, exif } = scanJpeg(bytes);
    // The wasm decoder has no CMYK; the built-in one has, and applies the orientation itself.
    if (components === 4) return toRgb(await decodeBuiltIn(bytes, "image/jpeg", "JPEG"));
    return upright(await decodeJpeg(bytes), exif);
  },
  webp: async (bytes) => {
    const { alpha, animated, exif } = scanWebp(bytes);
    if (animated) return upright(await decodeBuiltIn(bytes, "image/webp", "WebP"), exif);
    return upright(await decodeWebp(bytes, alpha), exif);
  },
  gif: (bytes) => decodeBuiltIn(bytes, "image/gif", "GIF"),
  bmp: (bytes) => decodeBuiltIn(bytes, "image/bmp", "BMP"),
};

/** Decodes with what Deno has built in, by way of a PNG file, which costs time but no quality. */
async function decodeBuiltIn(bytes: Uint8Array, type: string, name: string): Promise<PixelImage> {
  let png: Uint8Array;
  try {
    const bitmap = await createImageBitmap(new Blob([new Uint8Array(bytes)], { type }), {
      premultiplyAlpha: "default",
      colorSpaceConversion: "none",
    });
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    canvas.getContext("bitmaprenderer")!.transferFromImageBitmap(bitmap);
    png = await (await canvas.convertToBlob({ type: "image/png" })).bytes();
  } catch (cause) {
    throw new ImageError(`Cannot read ${name}: the file is damaged or truncated`, { cause });
  }
  const image = decodePng(png);
  return image.channels === 4 && isOpaque(image.data) ? toRgb(image) : image;
}

function upright<T extends PixelImage>(image: T, exif: Uint8Array | undefined): T {
  if (exif === undefined) return image;
  return applyOrientation(image, readExif(exif).orientation ?? 1);
}

function pngExif(bytes: Uint8Array): Uint8Array | undefined {
  for (const { type, data, intact } of pngChunks(bytes)) {
    if (type === "eXIf" && intact) return data;
  }
  return undefined;
}

/** BITMAPFILEHEADER and BITMAPINFOHEADER; a negative height means rows from the top. */
function readBmpSize(bytes: Uint8Array): Container {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isCore = view.getUint32(14, true) === 12;
  const [width, height] = isCore
    ? [view.getUint16(18, true), view.getUint16(20, true)]
    : [view.getInt32(18, true), Math.abs(view.getInt32(22, true))];
  if (width < 1 || height < 1) {
    throw new ImageError(`Cannot read BMP: its header gives a size of ${width}x${height}`);
  }
  return { width, height };
}

/** A profile that lies behind the pixels, as a BITMAPV5HEADER tells by `MBED`, written backwards. */
function bmpColors(bytes: Uint8Array): ColorSpace | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isV5 = view.getUint32(14, true) >= 124 && bytes.length >= 138;
  if (!isV5 || view.getUint32(70, true) !== 0x4d424544) return undefined;
  const start = 14 + view.getUint32(126, true);
  return readIccProfile(bytes.subarray(start, start + view.getUint32(130, true)));
}
