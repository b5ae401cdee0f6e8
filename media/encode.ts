/**
 * Pixels to an image file, and the text that travels in it.
 *
 * @module
 */

import { sniffImage } from "./decode.ts";
import { readExif, writeExif } from "./exif.ts";
import type { PixelImage } from "./image.ts";
import { encodeJpeg, scanJpeg } from "./jpeg.ts";
import { encodePng, MAX_TEXT_BYTES, readPngText, tooMuchText } from "./png.ts";
import { encodeWebp, scanWebp } from "./webp.ts";

/** Formats that {@link encodeImage} writes. */
export type OutputFormat = "png" | "jpeg" | "webp";

/** How {@link encodeImage} writes a file. */
export interface EncodeOptions {
  /** The format of the file. */
  readonly format: OutputFormat;
  /** 0 to 100, 75 when left out; PNG, which is exact at any, ignores it. */
  readonly quality?: number;
  /**
   * Metadata by keyword, such as the prompt and the seed. PNG keeps each in a text chunk of its
   * own; JPEG and WebP keep all as one JSON object in the EXIF comment.
   */
  readonly text?: Readonly<Record<string, string>>;
}

/** An image file and how to label it. */
export interface EncodedImage {
  /** The file. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The format in a `Content-Type` header. */
  readonly contentType: string;
  /** Ending of a file's name, without the dot. */
  readonly extension: string;
}

/**
 * Encodes an image.
 *
 * @param image RGB or RGBA
 * @param options format, quality and metadata
 * @returns the file with its content type and extension
 * @throws {RangeError} when the quality is outside 0 to 100, or size or text exceed the format
 * @throws {TypeError} when a transparent image is to become a JPEG, or a text does not fit PNG
 */
export async function encodeImage(
  image: PixelImage,
  options: EncodeOptions,
): Promise<EncodedImage> {
  const { format, quality = 75, text } = options;
  if (!(quality >= 0 && quality <= 100)) {
    throw new RangeError(`Cannot encode image: quality ${quality} is not between 0 and 100`);
  }
  const hasText = text !== undefined && Object.keys(text).length > 0;
  switch (format) {
    case "png": {
      const bytes = encodePng(image, hasText ? { text } : {});
      return { bytes, contentType: "image/png", extension: "png" };
    }
    case "jpeg": {
      if (image.channels === 4) {
        throw new TypeError(
          "Cannot encode JPEG: the image has an alpha channel, which JPEG cannot hold; use PNG or " +
            "WebP, or flatten it first",
        );
      }
      const bytes = await encodeJpeg(image, hasText ? { quality, exif: pack(text) } : { quality });
      return { bytes, contentType: "image/jpeg", extension: "jpg" };
    }
    case "webp": {
      const bytes = await encodeWebp(image, hasText ? { quality, exif: pack(text) } : { quality });
      return { bytes, contentType: "image/webp", extension: "webp" };
    }
  }
}

/**
 * Reads back the metadata of a file, whoever wrote it.
 *
 * @param bytes a PNG, JPEG or WebP file
 * @returns text by keyword; an EXIF comment that is not ours comes under `UserComment`; empty for
 * files without text and for other formats
 * @throws {ImageError} when the file is damaged, of no known format, or has more than {@link MAX_TEXT_BYTES} of text
 */
export function readImageText(bytes: Uint8Array): Record<string, string> {
  const format = sniffImage(bytes);
  if (format === "png") return readPngText(bytes);
  if (format !== "jpeg" && format !== "webp") return {};
  const { exif } = format === "jpeg" ? scanJpeg(bytes) : scanWebp(bytes);
  if (exif && exif.length > MAX_TEXT_BYTES) throw tooMuchText();
  const comment = exif === undefined ? undefined : readExif(exif).comment;
  return comment === undefined ? {} : unpack(comment);
}

function pack(text: Readonly<Record<string, string>>): Uint8Array {
  return writeExif(JSON.stringify(text));
}

function unpack(comment: string): Record<string, string> {
  try {
    const value: unknown = JSON.parse(comment);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      const entries = Object.entries(value);
      if (entries.every((entry): entry is [string, string] => typeof entry[1] === "string")) {
        return Object.fromEntries(entries);
      }
    }
  } catch {
    // Another program's comment: plain text.
  }
  return { UserComment: comment };
}
