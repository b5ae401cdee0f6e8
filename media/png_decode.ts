/** PNG files in: every colour type, bit depth and interlacing of the specification. */

import { inflateSync } from "../platform/mod.ts";
import { ImageError, type PixelImage } from "./image.ts";
import { concatBytes, paethPredictor, pngChunks } from "./png.ts";

interface PngHeader {
  readonly width: number;
  readonly height: number;
  /** Bits per sample: 1, 2, 4, 8 or 16. */
  readonly bitDepth: number;
  /** 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA. */
  readonly colorType: number;
  /** Whether the rows come in the seven passes of Adam7. */
  readonly interlaced: boolean;
}

/** Samples per pixel in the file, by colour type. */
const SAMPLES: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

/** Colour types with the bit depths that they may have. */
const KINDS = /^(?:0 (?:1|2|4|8|16)|3 (?:1|2|4|8)|[246] (?:8|16))$/;

/** Start and step in x and y of the passes of Adam7. */
const ADAM7 = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

const NO_PASSES = [[0, 0, 1, 1]] as const;

/** Reads the header of a PNG file from its first 33 bytes. */
export function readPngHeader(bytes: Uint8Array): PngHeader {
  const first = pngChunks(bytes).next().value;
  if (first === undefined || first.type !== "IHDR" || first.data.length !== 13 || !first.intact) {
    throw new ImageError("Cannot read PNG: the file does not begin with an intact IHDR chunk");
  }
  const view = new DataView(first.data.buffer, first.data.byteOffset, 13);
  const width = view.getUint32(0);
  const height = view.getUint32(4);
  const bitDepth = view.getUint8(8);
  const colorType = view.getUint8(9);
  const interlace = view.getUint8(12);
  if (width < 1 || height < 1) {
    throw new ImageError(`Cannot read PNG: its size is ${width}x${height}`);
  }
  if (!KINDS.test(`${colorType} ${bitDepth}`) || view.getUint16(10) !== 0 || interlace > 1) {
    throw new ImageError(
      `Cannot read PNG: colour type ${colorType} with ${bitDepth} bits, compression ` +
        `${view.getUint8(10)}, filter ${view.getUint8(11)} and interlacing ${interlace} is not PNG`,
    );
  }
  return { width, height, bitDepth, colorType, interlaced: interlace === 1 };
}

/** 16 bits keep their high byte, grey becomes RGB, transparency gives RGBA; check the size in the header first. */
export function decodePng(bytes: Uint8Array): PixelImage {
  const header = readPngHeader(bytes);
  const packed: Uint8Array[] = [];
  let palette: Uint8Array | undefined;
  let transparency: Uint8Array | undefined;
  for (const { type, data, intact } of pngChunks(bytes)) {
    const critical = type.charCodeAt(0) < 0x60;
    if (critical && !intact) {
      const chunk = /^[A-Za-z]{4}$/.test(type)
        ? `its ${type} chunk`
        : "a chunk without a valid name";
      throw new ImageError(`Cannot read PNG: the checksum of ${chunk} is wrong`);
    }
    if (type === "IDAT") packed.push(data);
    else if (type === "PLTE") palette = data;
    else if (type === "tRNS" && intact) transparency = data;
  }
  const rows = unpack(header, packed);
  if (header.colorType === 3 && (palette === undefined || palette.length % 3 !== 0)) {
    throw new ImageError("Cannot read PNG: it is a palette image without a valid palette");
  }
  return assemble(header, rows, palette, transparency);
}

/** Bytes of one filtered row of `width` pixels, without the filter byte. */
function rowBytes(header: PngHeader, width: number): number {
  return Math.ceil((width * SAMPLES[header.colorType]! * header.bitDepth) / 8);
}

/** Passes that have pixels: where they start, how they step, and their size. */
function passesOf(
  header: PngHeader,
): { x: number; y: number; dx: number; dy: number; w: number; h: number }[] {
  return (header.interlaced ? ADAM7 : NO_PASSES)
    .map(([x, y, dx, dy]) => ({
      x,
      y,
      dx,
      dy,
      w: Math.ceil((header.width - x) / dx),
      h: Math.ceil((header.height - y) / dy),
    }))
    .filter(({ w, h }) => w > 0 && h > 0);
}

function unpack(header: PngHeader, packed: readonly Uint8Array[]): Uint8Array {
  let expected = 0;
  for (const { w, h } of passesOf(header)) expected += h * (rowBytes(header, w) + 1);
  let rows: Uint8Array;
  try {
    rows = inflateSync(packed.length === 1 ? packed[0]! : concatBytes(packed), {
      maxOutputLength: expected,
      chunkSize: Math.max(64, expected),
    });
  } catch (cause) {
    throw new ImageError(
      `Cannot read PNG: its pixel data is damaged, truncated, or more than the ${expected} bytes ` +
        `of a ${header.width}x${header.height} image`,
      { cause },
    );
  }
  if (rows.length !== expected) {
    throw new ImageError(
      `Cannot read PNG: a ${header.width}x${header.height} image needs ${expected} bytes of ` +
        `pixel data, and the file has ${rows.length}`,
    );
  }
  return rows;
}

/** Undoes the filters, pass by pass, and spreads the samples to 8-bit RGB or RGBA. */
function assemble(
  header: PngHeader,
  rows: Uint8Array,
  palette: Uint8Array | undefined,
  transparency: Uint8Array | undefined,
): PixelImage {
  const { width, height } = header;
  const channels = header.colorType >= 4 || transparency !== undefined ? 4 : 3;
  const data = new Uint8Array(width * height * channels);
  const pixelBytes = Math.max(1, (SAMPLES[header.colorType]! * header.bitDepth) >> 3);
  let offset = 0;
  for (const pass of passesOf(header)) {
    const stride = rowBytes(header, pass.w);
    let above: Uint8Array = new Uint8Array(stride);
    for (let y = 0; y < pass.h; y++) {
      const row = rows.subarray(offset + 1, offset + 1 + stride);
      unfilter(rows[offset]!, row, above, pixelBytes);
      const start = (pass.y + y * pass.dy) * width + pass.x;
      spread(header, row, pass.w, palette, transparency, data, start, pass.dx, channels);
      above = row;
      offset += stride + 1;
    }
  }
  return channels === 4 ? { width, height, channels, data } : { width, height, data };
}

function unfilter(type: number, row: Uint8Array, above: Uint8Array, pixel: number): void {
  const length = row.length;
  switch (type) {
    case 0:
      return;
    case 1:
      for (let i = pixel; i < length; i++) row[i] = row[i]! + row[i - pixel]!;
      return;
    case 2:
      for (let i = 0; i < length; i++) row[i] = row[i]! + above[i]!;
      return;
    case 3:
      for (let i = 0; i < length; i++) {
        row[i] = row[i]! + (((i < pixel ? 0 : row[i - pixel]!) + above[i]!) >> 1);
      }
      return;
    case 4:
      for (let i = 0; i < length; i++) {
        const a = i < pixel ? 0 : row[i - pixel]!;
        const c = i < pixel ? 0 : above[i - pixel]!;
        row[i] = row[i]! + paethPredictor(a, above[i]!, c);
      }
      return;
    default:
      throw new ImageError(`Cannot read PNG: a row has filter type ${type}, which does not exist`);
  }
}

/** Writes one row of the file to `data`, from pixel `start` on, `step` pixels apart. */
function spread(
  header: PngHeader,
  row: Uint8Array,
  count: number,
  palette: Uint8Array | undefined,
  transparency: Uint8Array | undefined,
  data: Uint8Array,
  start: number,
  step: number,
  channels: 3 | 4,
): void {
  const { colorType, bitDepth } = header;
  const samples = SAMPLES[colorType]!;
  if (bitDepth === 8 && step === 1 && samples === channels) {
    data.set(row, start * channels);
    return;
  }
  const wide = bitDepth === 16;
  const grey = colorType === 0 || colorType === 4;
  // Grey of fewer bits is scaled so that its largest value is white.
  const scale = grey && bitDepth < 8 ? 255 / ((1 << bitDepth) - 1) : 1;
  const key = transparentColor(colorType, transparency);
  const pixel = [0, 0, 0, 0];
  for (let x = 0; x < count; x++) {
    let matches = key !== undefined;
    for (let s = 0; s < samples; s++) {
      const index = x * samples + s;
      let value: number;
      if (wide) {
        value = row[index * 2]!;
        if (key !== undefined && ((value << 8) | row[index * 2 + 1]!) !== key[s]) matches = false;
      } else {
        value = bitDepth === 8 ? row[index]! : bitsAt(row, index, bitDepth);
        if (key !== undefined && value !== key[s]) matches = false;
      }
      pixel[s] = value * scale;
    }
    const to = (start + x * step) * channels;
    let alpha = matches ? 0 : 255;
    if (colorType === 3) {
      const index = pixel[0]!;
      if (index * 3 >= palette!.length) {
        throw new ImageError(
          `Cannot read PNG: a pixel names colour ${index} of a palette of ${palette!.length / 3}`,
        );
      }
      data.set(palette!.subarray(index * 3, index * 3 + 3), to);
      alpha = transparency?.[index] ?? 255;
    } else {
      data[to] = pixel[0]!;
      data[to + 1] = pixel[grey ? 0 : 1]!;
      data[to + 2] = pixel[grey ? 0 : 2]!;
      if (colorType >= 4) alpha = pixel[samples - 1]!;
    }
    if (channels === 4) data[to + 3] = alpha;
  }
}

/** Sample `index` of a row packed `bits` to the sample, most significant first. */
function bitsAt(row: Uint8Array, index: number, bits: number): number {
  const position = index * bits;
  return (row[position >> 3]! >> (8 - bits - (position & 7))) & ((1 << bits) - 1);
}

/** The one colour that a tRNS chunk makes transparent in a grey or RGB image. */
function transparentColor(
  colorType: number,
  transparency: Uint8Array | undefined,
): number[] | undefined {
  if (transparency === undefined || (colorType !== 0 && colorType !== 2)) return undefined;
  const samples = SAMPLES[colorType]!;
  if (transparency.length !== samples * 2) {
    throw new ImageError("Cannot read PNG: its tRNS chunk has the wrong length");
  }
  const view = new DataView(transparency.buffer, transparency.byteOffset, samples * 2);
  return Array.from({ length: samples }, (_, s) => view.getUint16(s * 2));
}
