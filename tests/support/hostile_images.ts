/** Small image files that are much work to decode, or that claim more than they hold. */

import { crc32, deflateSync } from "node:zlib";

/**
 * A lossless WebP of one colour: 38 bytes at any size.
 *
 * Source: RFC 9649, section 3.4; the codes of an image whose every pixel is the same take no bits.
 *
 * @param width at most 16384
 * @param height at most 16384
 */
export function plainWebp(width: number, height: number): Uint8Array<ArrayBuffer> {
  const file = Uint8Array.fromBase64("UklGRh4AAABXRUJQVlA4TBEAAAAv/9//BwfQhCY0of+BiOh/AAA=");
  const bits = (width - 1) | ((height - 1) << 14);
  new DataView(file.buffer).setUint32(21, bits >>> 0, true);
  return file;
}

/**
 * An interlaced PNG of zeros.
 *
 * @param width in pixels
 * @param height in pixels
 * @param colorType 0 grey, 2 RGB, 6 RGBA
 * @param bitDepth 1, 2, 4, 8 or 16 as the colour type allows
 * @param cut keep so many bytes of pixels only
 */
export function interlacedPng(
  width: number,
  height: number,
  colorType: 0 | 2 | 6,
  bitDepth: number,
  cut = Infinity,
): Uint8Array<ArrayBuffer> {
  const bits = { 0: 1, 2: 3, 6: 4 }[colorType] * bitDepth;
  let size = 0;
  for (
    const [x, y, dx, dy] of [
      [0, 0, 8, 8],
      [4, 0, 8, 8],
      [0, 4, 4, 8],
      [2, 0, 4, 4],
      [0, 2, 2, 4],
      [1, 0, 2, 2],
      [0, 1, 1, 2],
    ] as const
  ) {
    const [columns, rows] = [Math.ceil((width - x) / dx), Math.ceil((height - y) / dy)];
    if (columns > 0 && rows > 0) size += rows * (1 + Math.ceil(columns * bits / 8));
  }
  const header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, width);
  view.setUint32(4, height);
  header.set([bitDepth, colorType, 0, 0, 1], 8);
  return concat(
    [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a],
    pngChunk("IHDR", header),
    pngChunk("IDAT", deflateSync(new Uint8Array(Math.min(cut, size)))),
    pngChunk("IEND", new Uint8Array(0)),
  );
}

/**
 * A progressive grey JPEG: one scan with nothing but zeros, and then the same again and again.
 *
 * Source: ITU-T T.81, annexes B and G. The code for "32767 blocks are over" is one byte here.
 *
 * @param width at most 65535
 * @param height at most 65535
 */
export function scannedJpeg(
  width: number,
  height: number,
  scans: number,
): Uint8Array<ArrayBuffer> {
  const word = (value: number) => [value >> 8, value & 255];
  const segment = (
    marker: number,
    bytes: number[],
  ) => [0xff, marker, ...word(bytes.length + 2), ...bytes];
  // One Huffman code each, of one bit: "no difference" for DC, "runs of 2^14 ended blocks" for AC.
  const table = (id: number, value: number) => [id, 1, ...new Array(15).fill(0), value];
  const blocks = Math.ceil(width / 8) * Math.ceil(height / 8);
  // Each run is the bit 0 and 14 zero bits: 15 bits for 2^14 blocks.
  const run = new Array(Math.ceil(15 * Math.ceil(blocks / 2 ** 14) / 8)).fill(0);
  // Each of these refines the same bit: every coefficient of every block is looked at.
  const acScan = [...segment(0xda, [1, 1, 0x00, 1, 63, 0x10]), ...run];
  return concat(
    [0xff, 0xd8],
    segment(0xdb, [0, ...new Array(64).fill(1)]),
    segment(0xc2, [8, ...word(height), ...word(width), 1, 1, 0x11, 0]),
    segment(0xc4, [...table(0x00, 0), ...table(0x10, 0xe0)]),
    segment(0xda, [1, 1, 0x00, 0, 0, 0]),
    new Uint8Array(Math.ceil(blocks / 8)),
    ...new Array<number[]>(scans - 1).fill(acScan),
    [0xff, 0xd9],
  );
}

/**
 * A GIF with one frame of one colour, which may be larger than the screen.
 *
 * @param isWhole whether all of its pixels follow; else two bytes
 */
export function gif(
  screen: readonly [number, number],
  frame: readonly [number, number],
  isWhole = false,
): Uint8Array<ArrayBuffer> {
  const word = (value: number) => [value & 255, value >> 8];
  const data = isWhole ? zeroLzw(frame[0] * frame[1]) : Uint8Array.of(2, 2, 0x44, 0x01, 0);
  return concat(
    new TextEncoder().encode("GIF89a"),
    [...screen.flatMap(word), 0x80, 0, 0, 0, 0, 0, 255, 255, 255],
    [0x2c, 0, 0, 0, 0, ...frame.flatMap(word), 0],
    data,
    [0x3b],
  );
}

/** LZW of `count` zeros: each code stands for a run that is longer by one than the last. */
function zeroLzw(count: number): Uint8Array {
  const bits: number[] = [];
  const put = (code: number, width: number) => {
    for (let bit = 0; bit < width; bit++) bits.push((code >> bit) & 1);
  };
  let width = 3;
  let next = 6;
  let length = 1;
  put(4, width);
  put(0, width);
  for (let left = count - 1; left > 0;) {
    if (next === 4096) {
      put(4, width);
      [width, next, length] = [3, 6, 1];
      put(0, width);
      left -= 1;
      continue;
    }
    // The code that is about to be made: the last run and one more.
    const taken = Math.min(left, length + 1);
    put(taken === length + 1 ? next : taken === 1 ? 0 : 5 + taken - 1, width);
    left -= taken;
    length = taken;
    next++;
    if (next === 2 ** width && width < 12) width++;
  }
  put(5, width);
  const bytes = new Uint8Array(Math.ceil(bits.length / 8));
  bits.forEach((bit, i) => bytes[i >> 3]! |= bit << (i & 7));
  const parts: (Uint8Array | number[])[] = [[2]];
  for (let at = 0; at < bytes.length; at += 255) {
    const block = bytes.subarray(at, at + 255);
    parts.push([block.length], block);
  }
  return concat(...parts, [0]);
}

function pngChunk(type: string, data: Uint8Array): Uint8Array {
  const body = concat(new TextEncoder().encode(type), data);
  const out = new Uint8Array(body.length + 8);
  const view = new DataView(out.buffer);
  view.setUint32(0, data.length);
  out.set(body, 4);
  view.setUint32(body.length + 4, crc32(body));
  return out;
}

function concat(...parts: readonly (Uint8Array | number[])[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
