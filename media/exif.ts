/** Orientation, colours and texts of photos: CIPA DC-008 (Exif 3.0), sections 4.5 to 4.7; TIFF 6.0, section 2. */

import { channelsOf, type PixelImage } from "./image.ts";

interface ExifTexts {
  /** What made the file (Software). */
  readonly software?: string | undefined;
  /** UserComment. */
  readonly comment?: string | undefined;
  /** MakerNote, which belongs to the program that made the file: of others none is read. */
  readonly note?: string | undefined;
}

/** What {@link readExif} finds; a fact that the file does not give is absent. */
interface ExifFacts extends ExifTexts {
  /** 1 to 8: how the stored rows and columns map to the upright image. 1 is upright. */
  readonly orientation?: number;
  /** Whether the samples are in Adobe RGB, as of a camera that is set to it: interoperability index R03. */
  readonly isAdobeRgb?: boolean;
  /** Texts of ImageDescription, Make and Model. */
  readonly labels?: readonly string[];
}

const LABELS = [0x010e, 0x010f, 0x0110];
const ORIENTATION = 0x0112;
const SOFTWARE = 0x0131;
const EXIF_DIRECTORY = 0x8769;
const MAKER_NOTE = 0x927c;
const USER_COMMENT = 0x9286;
const INTEROPERABILITY = 0xa005;
const INTEROPERABILITY_INDEX = 0x0001;

const TYPE_ASCII = 2;
const TYPE_SHORT = 3;
const TYPE_LONG = 4;
const TYPE_UNDEFINED = 7;

/** What JPEG puts in front of the structure, and some programs in WebP, too. */
export const EXIF_PREFIX = "Exif\0\0";

/** Our own MakerNote begins with it; UTF-8 follows. */
const NOTE_MARK = "denoise\0";

interface Entry {
  /** Where its value field is. */
  readonly at: number;
  readonly type: number;
  readonly count: number;
}

/** Reads a TIFF structure as EXIF stores it. Damaged entries count as absent: a photo with a broken note is still one. */
export function readExif(bytes: Uint8Array): ExifFacts {
  const tiff = startsWith(bytes, EXIF_PREFIX) ? bytes.subarray(EXIF_PREFIX.length) : bytes;
  if (tiff.length < 8) return {};
  const view = new DataView(tiff.buffer, tiff.byteOffset, tiff.byteLength);
  const order = view.getUint16(0);
  if (order !== 0x4949 && order !== 0x4d4d) return {};
  const little = order === 0x4949;

  /** Entries of the directory at `offset` by tag. */
  const directory = (offset: number): Map<number, Entry> => {
    const entries = new Map<number, Entry>();
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
  /** The bytes of an entry whose units are bytes; up to four stand in the entry itself. */
  const bytesOf = (entry: Entry | undefined, type: number): Uint8Array | undefined => {
    if (entry?.type !== type) return undefined;
    const start = entry.count <= 4 ? entry.at : view.getUint32(entry.at, little);
    return start + entry.count <= tiff.length
      ? tiff.subarray(start, start + entry.count)
      : undefined;
  };

  const root = directory(view.getUint32(4, little));
  const turned = root.get(ORIENTATION);
  const orientation = turned?.type === TYPE_SHORT && turned.count === 1
    ? view.getUint16(turned.at, little)
    : 0;
  const linked = (entry: Entry | undefined) => entry && directory(view.getUint32(entry.at, little));
  const own = linked(root.get(EXIF_DIRECTORY));
  const label = (tag: number, of = root) => {
    const text = bytesOf(of.get(tag), TYPE_ASCII);
    return text && withoutEnd(new TextDecoder().decode(text));
  };
  const rules = linked(own?.get(INTEROPERABILITY));
  const software = label(SOFTWARE);
  const comment = bytesOf(own?.get(USER_COMMENT), TYPE_UNDEFINED);
  const note = bytesOf(own?.get(MAKER_NOTE), TYPE_UNDEFINED);
  const labels = LABELS.flatMap((tag) => label(tag) ?? []);
  return {
    ...(orientation >= 1 && orientation <= 8 && { orientation }),
    ...(software !== undefined && { software }),
    ...(comment && comment.length > 8 && { comment: decodeComment(comment, little) }),
    ...(note && startsWith(note, NOTE_MARK) &&
      { note: new TextDecoder().decode(note.subarray(NOTE_MARK.length)) }),
    ...(rules && label(INTEROPERABILITY_INDEX, rules) === "R03" && { isAdobeRgb: true }),
    ...(labels.length > 0 && { labels }),
  };
}

/** Writes a TIFF structure that holds texts; the comment in the character code "UNICODE". */
export function writeExif({ software, comment, note }: ExifTexts): Uint8Array {
  const utf8 = new TextEncoder();
  const own: NewEntry[] = [];
  if (note !== undefined) {
    own.push({ tag: MAKER_NOTE, type: TYPE_UNDEFINED, data: utf8.encode(NOTE_MARK + note) });
  }
  if (comment !== undefined) {
    const data = new Uint8Array(8 + comment.length * 2);
    data.set(utf8.encode("UNICODE\0"));
    const view = new DataView(data.buffer, 8);
    for (let i = 0; i < comment.length; i++) view.setUint16(i * 2, comment.charCodeAt(i));
    own.push({ tag: USER_COMMENT, type: TYPE_UNDEFINED, data });
  }
  const root: NewEntry[] = [];
  if (software !== undefined) {
    root.push({ tag: SOFTWARE, type: TYPE_ASCII, data: utf8.encode(`${software}\0`) });
  }
  const start = 8;
  const ownStart = start + sizeOf([...root, { data: new Uint8Array(4) }]);
  const link = new Uint8Array(4);
  new DataView(link.buffer).setUint32(0, ownStart);
  root.push({ tag: EXIF_DIRECTORY, type: TYPE_LONG, data: link });

  const out = new Uint8Array(ownStart + sizeOf(own));
  out.set([0x4d, 0x4d, 0, 42, 0, 0, 0, start]);
  writeDirectory(out, start, root);
  writeDirectory(out, ownStart, own);
  return out;
}

/** An entry that is written; `data` is its value. */
interface NewEntry {
  readonly tag: number;
  readonly type: number;
  readonly data: Uint8Array;
}

/** Bytes of a directory with the values that do not fit into its entries, each at an even place. */
function sizeOf(entries: readonly Pick<NewEntry, "data">[]): number {
  return entries.reduce(
    (sum, { data: { length } }) => sum + 12 + (length > 4 ? length + length % 2 : 0),
    2 + 4,
  );
}

/** Writes entries, which ascend by tag, with their values behind them. */
function writeDirectory(out: Uint8Array, at: number, entries: readonly NewEntry[]): void {
  const view = new DataView(out.buffer);
  view.setUint16(at, entries.length);
  let valueAt = at + 2 + entries.length * 12 + 4;
  for (const [index, { tag, type, data }] of entries.entries()) {
    const entry = at + 2 + index * 12;
    view.setUint16(entry, tag);
    view.setUint16(entry + 2, type);
    view.setUint32(entry + 4, type === TYPE_LONG ? data.length / 4 : data.length);
    if (data.length <= 4) {
      out.set(data, entry + 8);
    } else {
      view.setUint32(entry + 8, valueAt);
      out.set(data, valueAt);
      valueAt += data.length + data.length % 2;
    }
  }
}

/** Whether turning an EXIF orientation of 1 to 8 upright makes rows of columns. */
export function swapsSides(orientation: number): boolean {
  return orientation >= 5;
}

/** Turns stored pixels of an EXIF orientation, 1 to 8, upright. */
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

function decodeComment(note: Uint8Array, little: boolean): string {
  const code = withoutEnd(new TextDecoder("latin1").decode(note.subarray(0, 8)));
  const text = note.subarray(8);
  // ASCII and "unknown" are read as UTF-8.
  const label = code !== "UNICODE" ? "utf-8" : isLittle(text, little) ? "utf-16le" : "utf-16be";
  return withoutEnd(new TextDecoder(label).decode(text));
}

/** UTF-16 has the byte order of the structure, but not every program minds: the zeros of Latin letters tell. */
function isLittle(text: Uint8Array, otherwise: boolean): boolean {
  let odd = 0;
  for (let i = 0; i < text.length; i++) if (text[i] === 0) odd += i % 2 ? 1 : -1;
  return odd === 0 ? otherwise : odd > 0;
}

/** The text before the NULs at its end. */
function withoutEnd(text: string): string {
  return text.replace(/(?<!\0)\0+$/, "");
}

export function startsWith(bytes: Uint8Array, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (bytes[i] !== text.charCodeAt(i)) return false;
  return true;
}
