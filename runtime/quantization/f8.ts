import type { BlockFormat } from "./block_format.ts";

/** Elements that are read together. */
const ELEMENTS = 4;

/** Sign, 4 bits of exponent with bias 7, 3 bits of mantissa; no infinities, and NaN where all seven bits are set. */
export function decodeF8(byte: number): number {
  const sign = byte & 0x80 ? -1 : 1;
  const exponent = (byte >> 3) & 15;
  const mantissa = byte & 7;
  if ((byte & 0x7f) === 0x7f) return NaN;
  return exponent === 0 ? sign * mantissa * 2 ** -9 : sign * (8 + mantissa) * 2 ** (exponent - 10);
}

/** Bytes of {@linkcode decodeF8} and a scale for the tensor, 1 unless the file has one. */
export const F8_E4M3: BlockFormat = {
  name: "f8_e4m3",
  blockElements: ELEMENTS,
  blockBytes: ELEMENTS,
  groupBlocks: 4,
  headerBytes: 16,
  byteValues: Float64Array.from({ length: 256 }, (_, byte) => decodeF8(byte)),
  nanBytes: [0x7f, 0xff],
  scaleRun: "row",
  decodeBlock(block, values) {
    for (let j = 0; j < ELEMENTS; j++) values[j] = decodeF8(block.getUint8(j));
  },
};

/** One element's value: that of an f16 whose lower byte is zero. */
function decodeF8E5M2(byte: number): number {
  return new Float16Array(Uint16Array.of(byte << 8).buffer)[0]!;
}

/** Bytes of a sign, 5 bits of exponent and 2 of mantissa, and a scale for the tensor, 1 unless the file has one. */
export const F8_E5M2: BlockFormat = {
  name: "f8_e5m2",
  blockElements: ELEMENTS,
  blockBytes: ELEMENTS,
  groupBlocks: 4,
  headerBytes: 16,
  byteValues: Float64Array.from({ length: 256 }, (_, byte) => decodeF8E5M2(byte)),
  scaleRun: "row",
  decodeBlock(block, values) {
    for (let j = 0; j < ELEMENTS; j++) values[j] = decodeF8E5M2(block.getUint8(j));
  },
};
