import type { BlockFormat } from "./block_format.ts";

/** Elements that are read together. */
const ELEMENTS = 4;

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
