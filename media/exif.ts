/**
 * The two facts of EXIF that matter here: which way up a photo is, and a text that travels with
 * it. JPEG, WebP and PNG each wrap the same TIFF structure.
 *
 * Source: CIPA DC-008 (Exif 3.0), sections 4.5 and 4.6; TIFF 6.0, section 2.
 *
 * @module
 */

import { channelsOf, type PixelImage } from "./image.ts";

/** What {@link readExif} finds; a fact that the file does not give is absent. */
interface ExifFacts {
  /** 1 to 8: how the stored rows and columns map to the upright image. 1 is upright. */
  readonly orientation?: number;
  /** The text of UserComment. */
  readonly comment?: string;
}

const ORIENTATION = 0x0112;
const EXIF_DIRECTORY = 0x8769;
const USER_COMMENT = 0x9286;

const TYPE_SHORT = 3;
const TYPE_LONG = 4;
const TYPE_UNDEFINED = 7;

/**
 * Reads a TIFF structure as EXIF stores it. Damaged entries count as absent: a photo with a
 * broken note is still a photo.
 *
 * @param tiff the structure, beginning with the byte order mark `II` or `MM`
 * @returns what it says
 */
export function readExif(tiff: Uint8Array): ExifFacts {
  if (tiff.length < 8) return {};
  const view = new DataView(tiff.buffer, tiff.byteOffset, tiff.byteLength);
  const order = view.getUint16(0);
  if (order !== 0x4949 && order !== 0x4d4d) return {};
  const little = order === 0x4949;

  /** Entries of the directory at `offset`: position of the value field by tag. */
  const directory = (offset: number): Map<number, { at: number; type: number; count: number }> => {
    const entries = new Map<number, { at: number; type: number; count: number }>();
    if (offset < 8 || offset + 2 > tiff.length) return entries;
    const count = view.getUint16(offset, little);
    for (let i = 0; i < count; i++) {
      const at = offset + 2 + i * 12;
      if (at + 12 > tiff.length) break;
      entries.set(view.getUint16(at, little), {
        at: at + 8,
        type: view.getUint16(at + 2, little),
        count: view.getUint32(at + 4, little),
      });
    }
    return entries;
  };

  const root = directory(view.getUint32(4, little));
  const facts: { orientation?: number; comment?: string } = {};
  const turned = root.get(ORIENTATION);
  if (turned?.type === TYPE_SHORT && turned.count === 1) {
    const orientation = view.getUint16(turned.at, little);
    if (orientation >= 1 && orientation <= 8) facts.orientation = orientation;
  }
  const link = root.get(EXIF_DIRECTORY);
  if (link !== undefined) {
    const note = directory(view.getUint32(link.at, little)).get(USER_COMMENT);
    if (note?.type === TYPE_UNDEFINED && note.count > 8) {
      const start = view.getUint32(note.at, little);
      if (start + note.count <= tiff.length) {
        facts.comment = decodeComment(tiff.subarray(start, start + note.count), little);
      }
    }
  }
  return facts;
}

/**
 * Writes a TIFF structure that holds one text, as UserComment in the character code "UNICODE".
 *
 * @param comment the text
 * @returns the structure, without the prefix that JPEG puts in front
 */
export function writeExif(comment: string): Uint8Array {
  const noteLength = 8 + comment.length * 2;
  const noteStart = 44;
  const out = new Uint8Array(noteStart + noteLength);
  const view = new DataView(out.buffer);
  view.setUint16(0, 0x4d4d);
  view.setUint16(2, 42);
  view.setUint32(4, 8);
  // Directory 0 at byte 8: one entry, the link to the EXIF directory at byte 26.
  view.setUint16(8, 1);
  writeEntry(view, 10, EXIF_DIRECTORY, TYPE_LONG, 1, 26);
  // The EXIF directory: one entry, the comment at byte 44.
  view.setUint16(26, 1);
  writeEntry(view, 28, USER_COMMENT, TYPE_UNDEFINED, noteLength, noteStart);
  out.set(new TextEncoder().encode("UNICODE\0"), noteStart);
  for (let i = 0; i < comment.length; i++) {
    view.setUint16(noteStart + 8 + i * 2, comment.charCodeAt(i));
  }
  return out;
}

/**
 * Whether turning upright makes rows of columns.
 *
 * @param orientation the EXIF value, 1 to 8
 * @returns true for 5 to 8
 */
export function swapsSides(orientation: number): boolean {
  return orientation >= 5;
}

/**
 * Turns stored pixels upright.
 *
 * @param image the pixels as stored
 * @param orientation the EXIF value, 1 to 8
 * @returns the upright image; the image itself for 1
 * @throws {RangeError} for another value
 */
export function applyOrientation<T extends PixelImage>(image: T, orientation: number): T {
  if (orientation === 1) return image;
  if (!Number.isInteger(orientation) || orientation < 1 || orientation > 8) {
    throw new RangeError(`Cannot turn image: orientation ${orientation} is not one of 1 to 8`);
  }
  const { width, height, data } = image;
  const channels = channelsOf(image);
  // 5 to 8 swap rows and columns; the other two facts say which stored axis runs backwards.
  const swapped = swapsSides(orientation);
  const flipX = orientation === 2 || orientation === 3 || orientation === 7 || orientation === 8;
  const flipY = orientation === 3 || orientation === 4 || orientation === 6 || orientation === 7;
  const outWidth = swapped ? height : width;
  const outHeight = swapped ? width : height;
  const out = new Uint8Array(data.length);
  let to = 0;
  for (let y = 0; y < outHeight; y++) {
    for (let x = 0; x < outWidth; x++) {
      const column = swapped ? y : x;
      const row = swapped ? x : y;
      const fromX = flipX ? width - 1 - column : column;
      const fromY = flipY ? height - 1 - row : row;
      const from = (fromY * width + fromX) * channels;
      for (let c = 0; c < channels; c++) out[to++] = data[from + c]!;
    }
  }
  return { ...image, width: outWidth, height: outHeight, data: out };
}

function writeEntry(
  view: DataView,
  at: number,
  tag: number,
  type: number,
  count: number,
  value: number,
): void {
  view.setUint16(at, tag);
  view.setUint16(at + 2, type);
  view.setUint32(at + 4, count);
  view.setUint32(at + 8, value);
}

function decodeComment(note: Uint8Array, little: boolean): string {
  const code = new TextDecoder("latin1").decode(note.subarray(0, 8)).replace(/(?<!\0)\0+$/, "");
  const text = note.subarray(8);
  // UNICODE is UTF-16 in the byte order of the structure; ASCII and "unknown" are read as UTF-8.
  const label = code === "UNICODE" ? (little ? "utf-16le" : "utf-16be") : "utf-8";
  return new TextDecoder(label).decode(text).replace(/(?<!\0)\0+$/, "");
}
