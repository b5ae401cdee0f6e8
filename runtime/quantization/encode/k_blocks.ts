/** Blocks of 256, as `quantize_row_*_K_ref` of `ggml-quants.c` writes them. */
import {
  EPSILON,
  found,
  type OffsetSearch,
  searchOffset,
  searchSymmetric,
  searchThreeBits,
} from "./k_search.ts";
import { clamp, extremeOf, nearestInt } from "./rounding.ts";

const { abs, fround } = Math;
const ELEMENTS = 256;

const SIGNED = new Int8Array(ELEMENTS);
const QUANTS = new Uint8Array(ELEMENTS);
const WEIGHTS = new Float32Array(32);
const SCALES = new Float32Array(16);
const MINS = new Float32Array(16);

const TWO_BITS: OffsetSearch = {
  size: 16,
  highest: 3,
  first: -0.5,
  step: 0.1,
  tries: 15,
  isAbsolute: true,
};
const FOUR_BITS: OffsetSearch = {
  size: 32,
  highest: 15,
  first: -1,
  step: 0.1,
  tries: 20,
  isAbsolute: false,
};
const FIVE_BITS: OffsetSearch = {
  size: 32,
  highest: 31,
  first: -0.5,
  step: 0.1,
  tries: 15,
  isAbsolute: false,
};

/** Factors and offsets of all parts into `SCALES` and `MINS`; returns the largest of each. */
function searchParts(
  search: OffsetSearch,
  x: Float32Array,
): { readonly scale: number; readonly min: number } {
  const { size } = search;
  let scale = 0;
  let min = 0;
  for (let part = 0; part < ELEMENTS / size; part++) {
    const at = part * size;
    let average = 0;
    if (size === 32) {
      for (let i = at; i < at + size; i++) average = fround(average + fround(x[i]! * x[i]!));
      average = fround(Math.sqrt(fround(average / size)));
    }
    for (let i = 0; i < size; i++) WEIGHTS[i] = average + abs(x[at + i]!);
    searchOffset(search, x, WEIGHTS, QUANTS, at);
    SCALES[part] = found.scale;
    MINS[part] = found.min;
    if (found.scale > scale) scale = found.scale;
    if (found.min > min) min = found.min;
  }
  return { scale, min };
}

/** New numbers of one part, for the factor and the offset as they are stored; as they were where the factor is zero. */
function requantise(
  x: Float32Array,
  at: number,
  { size, highest }: OffsetSearch,
  factor: number,
  offset: number,
): void {
  if (!factor) return;
  for (let i = at; i < at + size; i++) {
    QUANTS[i] = clamp(nearestInt(fround(fround(x[i]! + offset) / factor)), 0, highest);
  }
}

/** 256 numbers of two bits, as {@linkcode joinPairs} finds them. */
function putPairs(quants: Uint8Array | Int8Array, block: DataView, at: number): void {
  for (let j = 0; j < ELEMENTS; j += 128) {
    for (let l = 0; l < 32; l++) {
      const byte = (quants[j + l]! & 3) | ((quants[j + l + 32]! & 3) << 2) |
        ((quants[j + l + 64]! & 3) << 4) | ((quants[j + l + 96]! & 3) << 6);
      block.setUint8(at + j / 4 + l, byte);
    }
  }
}

export function encodeQ2K(x: Float32Array, block: DataView): void {
  const largest = searchParts(TWO_BITS, x);
  const factors = largest.scale > 0 ? fround(15 / largest.scale) : 0;
  const offsets = largest.min > 0 ? fround(15 / largest.min) : 0;
  block.setFloat16(80, largest.scale > 0 ? fround(largest.scale / 15) : 0, true);
  block.setFloat16(82, largest.min > 0 ? fround(largest.min / 15) : 0, true);
  const d = block.getFloat16(80, true);
  const dmin = block.getFloat16(82, true);
  for (let part = 0; part < 16; part++) {
    const scale = factors === 0 ? 0 : nearestInt(fround(factors * SCALES[part]!));
    const min = offsets === 0 ? 0 : nearestInt(fround(offsets * MINS[part]!));
    const byte = (scale | (min << 4)) & 255;
    block.setUint8(part, byte);
    requantise(x, 16 * part, TWO_BITS, fround(d * (byte & 15)), fround(dmin * (byte >> 4)));
  }
  putPairs(QUANTS, block, 16);
}

export function encodeQ3K(x: Float32Array, block: DataView): void {
  for (let part = 0; part < 16; part++) SCALES[part] = searchThreeBits(x, SIGNED, 16 * part);
  const extreme = extremeOf(SCALES);
  const inverse = extreme ? fround(-32 / extreme) : 0;
  block.setFloat16(108, extreme ? fround(1 / inverse) : 0, true);
  const d = block.getFloat16(108, true);
  const packed = new Uint8Array(block.buffer, block.byteOffset + 96, 12).fill(0);
  for (let part = 0; part < 16; part++) {
    let scale = 0;
    if (extreme) {
      // ggml keeps the number in a byte before it is clamped.
      const rounded = nearestInt(fround(inverse * SCALES[part]!)) << 24 >> 24;
      scale = clamp(rounded, -32, 31) + 32;
      packed[part & 7]! |= (scale & 15) << (4 * (part >> 3));
      packed[8 + (part & 3)]! |= (scale >> 4) << (2 * (part >> 2));
    }
    const factor = fround(d * (scale - 32));
    if (!factor) continue;
    for (let i = 16 * part; i < 16 * part + 16; i++) {
      SIGNED[i] = clamp(nearestInt(fround(x[i]! / factor)), -4, 3) + 4;
    }
  }
  for (let l = 0; l < 32; l++) {
    let thirds = 0;
    for (let part = 0; part < 8; part++) thirds |= (SIGNED[32 * part + l]! >> 2) << part;
    block.setUint8(l, thirds);
  }
  putPairs(SIGNED, block, 32);
}

/** The sixteen bytes that `q4_k` and `q5_k` begin with, and numbers for them. */
function putHeader(x: Float32Array, block: DataView, search: OffsetSearch): void {
  const largest = searchParts(search, x);
  const factors = largest.scale > 0 ? fround(63 / largest.scale) : 0;
  const offsets = largest.min > 0 ? fround(63 / largest.min) : 0;
  block.setFloat16(0, fround(largest.scale / 63), true);
  block.setFloat16(2, fround(largest.min / 63), true);
  const d = block.getFloat16(0, true);
  const dmin = block.getFloat16(2, true);
  const packed = new Uint8Array(block.buffer, block.byteOffset + 4, 12).fill(0);
  for (let part = 0; part < 8; part++) {
    const scale = Math.min(63, nearestInt(fround(factors * SCALES[part]!)) & 255);
    const min = Math.min(63, nearestInt(fround(offsets * MINS[part]!)) & 255);
    if (part < 4) {
      packed[part] = scale;
      packed[part + 4] = min;
    } else {
      packed[part + 4] = (scale & 15) | ((min & 15) << 4);
      packed[part - 4]! |= (scale >> 4) << 6;
      packed[part]! |= (min >> 4) << 6;
    }
    requantise(x, 32 * part, search, fround(d * scale), fround(dmin * min));
  }
}

function putNibbles(block: DataView, at: number): void {
  for (let j = 0; j < ELEMENTS; j += 64) {
    for (let l = 0; l < 32; l++) {
      block.setUint8(at + j / 2 + l, (QUANTS[j + l]! & 15) | ((QUANTS[j + l + 32]! & 15) << 4));
    }
  }
}

export function encodeQ4K(x: Float32Array, block: DataView): void {
  putHeader(x, block, FOUR_BITS);
  putNibbles(block, 16);
}

export function encodeQ5K(x: Float32Array, block: DataView): void {
  putHeader(x, block, FIVE_BITS);
  for (let l = 0; l < 32; l++) {
    let fifths = 0;
    for (let part = 0; part < 8; part++) fifths |= (QUANTS[32 * part + l]! >> 4) << part;
    block.setUint8(16 + l, fifths);
  }
  putNibbles(block, 48);
}

export function encodeQ6K(x: Float32Array, block: DataView): void {
  for (let part = 0; part < 16; part++) SCALES[part] = searchSymmetric(32, x, SIGNED, 16 * part);
  const extreme = extremeOf(SCALES);
  if (abs(extreme) < EPSILON) {
    new Uint8Array(block.buffer, block.byteOffset, block.byteLength).fill(0);
    return;
  }
  const inverse = fround(-128 / extreme);
  block.setFloat16(208, fround(1 / inverse), true);
  const d = block.getFloat16(208, true);
  for (let part = 0; part < 16; part++) {
    block.setInt8(192 + part, Math.min(127, nearestInt(fround(inverse * SCALES[part]!))));
    const factor = fround(d * block.getInt8(192 + part));
    if (!factor) continue;
    for (let i = 16 * part; i < 16 * part + 16; i++) {
      SIGNED[i] = clamp(nearestInt(fround(x[i]! / factor)), -32, 31) + 32;
    }
  }
  for (let half = 0; half < 2; half++) {
    for (let l = 0; l < 32; l++) {
      const q = (quarter: number) => SIGNED[128 * half + 32 * quarter + l]!;
      block.setUint8(64 * half + l, (q(0) & 15) | ((q(2) & 15) << 4));
      block.setUint8(64 * half + 32 + l, (q(1) & 15) | ((q(3) & 15) << 4));
      const high = (q(0) >> 4) | ((q(1) >> 4) << 2) | ((q(2) >> 4) << 4) | ((q(3) >> 4) << 6);
      block.setUint8(128 + 32 * half + l, high);
    }
  }
}
