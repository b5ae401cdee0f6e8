/** Pixels to an image file, and the text that travels in it. */

import { sniffImage } from "./decode.ts";
import { readExif, writeExif } from "./exif.ts";
import type { PixelImage } from "./image.ts";
import { encodeJpeg, scanJpeg } from "./jpeg.ts";
import { encodePng, MAX_TEXT_BYTES, readPngText, tooMuchText } from "./png.ts";
import { encodeWebp, scanWebp } from "./webp.ts";

/** Formats that {@link encodeImage} writes. */
export type OutputFormat = "png" | "jpeg" | "webp";

export interface EncodeOptions {
  readonly format: OutputFormat;
  /** 0 to 100, 75 by default; PNG, which is exact at any, ignores it. */
  readonly quality?: number;
  readonly text?: ImageText;
}

/** Texts in a file, by their keywords in PNG. JPEG and WebP have them in EXIF. */
export interface ImageText {
  /** What made it; EXIF's Software. */
  readonly Software?: string;
  /** How it was made, as Stable Diffusion WebUI says it; EXIF's UserComment. */
  readonly parameters?: string;
  /** How it was made, as JSON of ours; EXIF's MakerNote. */
  readonly denoise?: string;
}

export interface EncodedImage {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The format in a `Content-Type` header. */
  readonly contentType: string;
  /** Ending of a file's name, without the dot. */
  readonly extension: string;
}

export async function encodeImage(
  image: PixelImage,
  options: EncodeOptions,
): Promise<EncodedImage> {
  const { format, quality = 75, text } = options;
  if (!(quality >= 0 && quality <= 100)) {
    throw new RangeError(`Cannot encode image: quality ${quality} is not between 0 and 100`);
  }
  const hasText = text !== undefined && Object.keys(text).length > 0;
  const exif = hasText && format !== "png" ? exifOf(text) : undefined;
  switch (format) {
    case "png":
      return {
        bytes: encodePng(image, hasText ? { text: { ...text } } : {}),
        contentType: "image/png",
        extension: "png",
      };
    case "jpeg":
      if (image.channels === 4) {
        throw new TypeError(
          "Cannot encode JPEG: the image has an alpha channel, which JPEG cannot hold; use PNG or " +
            "WebP, or flatten it first",
        );
      }
      return {
        bytes: await encodeJpeg(image, quality, exif),
        contentType: "image/jpeg",
        extension: "jpg",
      };
    case "webp":
      return {
        bytes: await encodeWebp(image, quality, exif),
        contentType: "image/webp",
        extension: "webp",
      };
  }
}

/** Reads the texts of a PNG, JPEG or WebP file by keyword, whoever wrote it; an EXIF comment comes under `parameters`. */
export function readImageText(bytes: Uint8Array): Record<string, string> {
  const format = sniffImage(bytes);
  if (format === "png") return readPngText(bytes);
  if (format !== "jpeg" && format !== "webp") return {};
  const { exif } = format === "jpeg" ? scanJpeg(bytes) : scanWebp(bytes);
  if (exif === undefined) return {};
  if (exif.length > MAX_TEXT_BYTES) throw tooMuchText();
  const { software, comment, note, labels = [] } = readExif(exif);
  return {
    // ComfyUI's texts have their keyword in front.
    ...Object.fromEntries(
      labels.map((label) => /^(\w{1,79}):(?=[[{])(.*)$/s.exec(label)?.slice(1))
        .filter((entry) => entry !== undefined),
    ),
    ...(software === undefined ? {} : { Software: software }),
    ...(comment === undefined ? {} : olderText(comment) ?? { parameters: comment }),
    ...(note === undefined ? {} : { denoise: note }),
  };
}

export function exifOf(
  { Software: software, parameters: comment, denoise: note }: ImageText,
): Uint8Array {
  return writeExif({ software, comment, note });
}

/** The texts by keyword that denoise 0.1 wrote into the comment as JSON. */
function olderText(comment: string): Record<string, string> | undefined {
  if (!comment.startsWith("{")) return undefined;
  try {
    const entries = Object.entries(JSON.parse(comment));
    return entries.every((entry): entry is [string, string] => typeof entry[1] === "string")
      ? Object.fromEntries(entries)
      : undefined;
  } catch {
    return undefined;
  }
}

/** What a result is, as far as its default quality depends on it. */
type OutputMedia = "image" | "video";

/** Quality of results where the request says nothing. */
const DEFAULT_QUALITY: Readonly<Record<OutputMedia, number>> = { image: 75, video: 50 };

const PRESETS: ReadonlyMap<string, number> = new Map([
  ["maximum", 100],
  ["high", 90],
  ["medium", 55],
  ["low", 35],
]);

/** What `output_quality` may say. */
export const QUALITY_PRESETS: readonly string[] = ["default", ...PRESETS.keys()];

/** One number for how well a result is kept, 0 (smallest) to 100 (best). */
export function resolveQuality(
  outputQuality: string | null | undefined,
  outputCompression: number | null | undefined,
  media: OutputMedia,
): number {
  if (outputCompression !== undefined && outputCompression !== null) {
    if (!(outputCompression >= 0 && outputCompression <= 100)) {
      throw new RangeError(
        `Cannot use output_compression ${outputCompression}: it must be between 0 and 100`,
      );
    }
    return outputCompression;
  }
  return PRESETS.get(outputQuality ?? "") ?? DEFAULT_QUALITY[media];
}
