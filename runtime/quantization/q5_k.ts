import type { BlockFormat } from "./block_format.ts";
import { K_HEADER_BYTES, kScale, shuffleParts } from "./q4_k.ts";

/** Elements of a block and of one of its 8 parts. */
const ELEMENTS = 256;
const PART = 32;

/** Scratch words of {@linkcode shuffleFifths}. */
const FIFTHS = new Uint32Array(8);

/** One part's fifth bits after another's: bit i of byte c of word `part` becomes that of element 4i + c of the part. */
export function shuffleFifths(words: Uint32Array, at: number): void {
  FIFTHS.set(words.subarray(at, at + FIFTHS.length));
  for (let part = 0; part < 8; part++) {
    let bits = 0;
    for (let i = 0; i < 8; i++) bits |= ((FIFTHS[i]! >>> part) & 0x01010101) << i;
    words[at + part] = bits;
  }
}

/**
 * Blocks of 256 as in `q4_k`, with 32 bytes of fifth bits between scales and q: bit p of byte l belongs to element l
 * of part p.
 */
export const Q5_K: BlockFormat = {
  name: "q5_k",
  blockElements: ELEMENTS,
  blockBytes: K_HEADER_BYTES + PART + ELEMENTS / 2,
  groupBlocks: 1,
  headerBytes: 0,
  scaleRun: 8,
  integerBits: 5,
  decodeBlock(block, values) {
    for (let i = 0; i < ELEMENTS; i++) {
      const part = Math.floor(i / PART);
      const { factor, offset } = kScale(block, part);
      const byte = block.getUint8(K_HEADER_BYTES + PART + (part >> 1) * PART + i % PART);
      const fifth = (block.getUint8(K_HEADER_BYTES + i % PART) >> part) & 1;
      const q = (part % 2 === 0 ? byte & 15 : byte >> 4) + 16 * fifth;
      values[i] = Math.fround(factor * q) - offset;
    }
  },
  // A block is 44 words: 4 of scales, 1 of fifth bits for each part, 4 of nibbles for each part.
  shuffle(words, at) {
    shuffleFifths(words, at + 4);
    shuffleParts(words, at + 12);
  },
};
