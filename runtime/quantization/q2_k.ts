import { type BlockFormat, joinPairs } from "./block_format.ts";

/** Elements of a block, and with one scale. */
const ELEMENTS = 256;
const PART = 16;
/** Where the parts of a block start: scales from 0 on, q, d and dmin. */
const QUANTS = ELEMENTS / PART;
const FACTORS = QUANTS + ELEMENTS / 4;

/** Scratch words of {@linkcode shuffle}. */
const WORDS = new Uint32Array(21);

/** Factors first, then scales, then two words of q for each 32 elements. */
function shuffle(words: Uint32Array, at: number): void {
  WORDS.set(words.subarray(at, at + WORDS.length));
  words[at] = WORDS[20]!;
  words.set(WORDS.subarray(0, 4), at + 1);
  joinPairs(WORDS, 4, words, at + 5);
}

/**
 * Blocks of 256 in 16 parts: a byte for each with S in its low and M in its high half, 64 bytes q, f16 d, f16 dmin. Of
 * half h and quarter k, q are bits 2k, 2k+1 of byte 32h + l; an element is (d · S) · q − dmin · M.
 */
export const Q2_K: BlockFormat = {
  name: "q2_k",
  blockElements: ELEMENTS,
  blockBytes: FACTORS + 4,
  groupBlocks: 4,
  headerBytes: 0,
  scaleRun: 4,
  integerBits: 2,
  shuffle,
  decodeBlock(block, values) {
    const d = block.getFloat16(FACTORS, true);
    const dmin = block.getFloat16(FACTORS + 2, true);
    for (let i = 0; i < ELEMENTS; i++) {
      const scale = block.getUint8(Math.floor(i / PART));
      const q = (block.getUint8(QUANTS + 32 * (i >> 7) + (i & 31)) >> (2 * ((i >> 5) & 3))) & 3;
      values[i] = Math.fround(Math.fround(d * (scale & 15)) * q) - Math.fround(dmin * (scale >> 4));
    }
  },
};
