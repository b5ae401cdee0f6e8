import { type BlockFormat, pairNibbles } from "./block_format.ts";

/** Elements of a block and of one of its 8 parts. */
const ELEMENTS = 256;
const PART = 32;
/** Bytes of d, dmin and the packed 6-bit scales. */
export const K_HEADER_BYTES = 16;

/**
 * Factor and offset of part `part` of a block of `q4_k` or `q5_k`, which start alike: f16 d, f16 dmin, and 6-bit
 * S and M of 8 parts in 12 bytes. The first four have theirs in the low six bits of a byte each; those of the
 * others lie four bits in the last four bytes and two bits on top of the first eight.
 */
export function kScale(block: DataView, part: number): { factor: number; offset: number } {
  const byte = (i: number) => block.getUint8(4 + i);
  const s = part < 4 ? byte(part) & 63 : (byte(part + 4) & 15) | ((byte(part - 4) >> 6) << 4);
  const m = part < 4 ? byte(part + 4) & 63 : (byte(part + 4) >> 4) | ((byte(part) >> 6) << 4);
  return {
    factor: Math.fround(block.getFloat16(0, true) * s),
    offset: Math.fround(block.getFloat16(2, true) * m),
  };
}

/** One part's nibbles after another's: the 32 words from `at` on, of which eight hold two parts. */
export function shuffleParts(words: Uint32Array, at: number): void {
  for (let two = at; two < at + ELEMENTS / 8; two += 8) {
    for (let i = two; i < two + 4; i++) {
      const first = words[i]!;
      const second = words[i + 4]!;
      words[i] = pairNibbles(first, second, 0);
      words[i + 4] = pairNibbles(first, second, 4);
    }
  }
}

/**
 * Blocks of 256 in 8 parts of 32: d, dmin and scales (see {@linkcode kScale}), then 128 bytes q. Byte 32g + l has
 * element l of part 2g in its low half and of part 2g + 1 in its high half; an element is (d · S) · q − dmin · M.
 */
export const Q4_K: BlockFormat = {
  name: "q4_k",
  blockElements: ELEMENTS,
  blockBytes: K_HEADER_BYTES + ELEMENTS / 2,
  groupBlocks: 1,
  headerBytes: 0,
  scaleRun: 8,
  integerBits: 4,
  decodeBlock(block, values) {
    for (let i = 0; i < ELEMENTS; i++) {
      const part = Math.floor(i / PART);
      const { factor, offset } = kScale(block, part);
      const byte = block.getUint8(K_HEADER_BYTES + (part >> 1) * PART + i % PART);
      const q = part % 2 === 0 ? byte & 15 : byte >> 4;
      values[i] = Math.fround(factor * q) - offset;
    }
  },
  // A block is 36 words: 4 of scales, 4 for each part.
  shuffle: (words, at) => shuffleParts(words, at + 4),
};
