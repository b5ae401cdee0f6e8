import { type BlockFormat, joinPairs } from "./block_format.ts";
import { shuffleFifths } from "./q5_k.ts";

/** Elements of a block, and with one scale. */
const ELEMENTS = 256;
const PART = 16;
/** Where the parts of a block start: third bits from 0 on, q, scales, d. */
const QUANTS = ELEMENTS / 8;
const SCALES = QUANTS + ELEMENTS / 4;
const SCALE = SCALES + 12;

/** Scratch words of {@linkcode shuffle}. */
const WORDS = new Uint32Array(16);

/** A word of third bits for each 32 elements, then two words of q for each; scales stay where they are. */
function shuffle(words: Uint32Array, at: number): void {
  shuffleFifths(words, at);
  WORDS.set(words.subarray(at + 8, at + 24));
  joinPairs(WORDS, 0, words, at + 8);
}

/**
 * Blocks of 256 in 16 parts: 32 bytes of third bits, 64 bytes q, 6-bit S of the parts in 12 bytes, f16 d. Of half h
 * and quarter k, q are bits 2k, 2k+1 of byte 32h + l, with bit 4h + k of byte l above them. S[p] has its low four bits in
 * byte p mod 8 and the others in byte 8 + p mod 4; element i is (d · (S[i / 16] − 32)) · (q − 4).
 */
export const Q3_K: BlockFormat = {
  name: "q3_k",
  blockElements: ELEMENTS,
  blockBytes: SCALE + 2,
  groupBlocks: 8,
  looseScale: SCALE,
  headerBytes: 0,
  scaleRun: 4,
  integerBits: 3,
  shuffle,
  decodeBlock(block, values) {
    const d = block.getFloat16(SCALE, true);
    for (let i = 0; i < ELEMENTS; i++) {
      const part = Math.floor(i / PART);
      const low = (block.getUint8(SCALES + (part & 7)) >> (4 * (part >> 3))) & 15;
      const high = (block.getUint8(SCALES + 8 + (part & 3)) >> (2 * (part >> 2))) & 3;
      const pair = (block.getUint8(QUANTS + 32 * (i >> 7) + (i & 31)) >> (2 * ((i >> 5) & 3))) & 3;
      const third = (block.getUint8(i & 31) >> (i >> 5)) & 1;
      values[i] = Math.fround(d * ((low | (high << 4)) - 32)) * ((pair | (third << 2)) - 4);
    }
  },
};
