import { type BlockFormat, regroupFifths } from "./block_format.ts";

const HALF = 16;
/** Where the nibbles begin. */
const QUANTS = 8;

/**
 * Blocks of 32: f16 factor d, f16 m, fifth bits in a `u32` h, 16 bytes q; element j is d · ((q[j] & 15) | 16 · bit j of h) + m,
 * element 16 + j likewise with q[j] >> 4 and bit 16 + j.
 */
export const Q5_1: BlockFormat = {
  name: "q5_1",
  blockElements: 2 * HALF,
  blockBytes: QUANTS + HALF,
  groupBlocks: 2,
  headerBytes: 0,
  scaleRun: 8,
  integerBits: 5,
  // A block is 6 words: d and m, fifth bits, 4 of nibbles.
  shuffle: (words, at) => regroupFifths(words, at + 1),
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    const m = block.getFloat16(2, true);
    const fifths = block.getUint32(4, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(QUANTS + j);
      values[j] = Math.fround(d * ((q & 15) | (((fifths >>> j) & 1) << 4))) + m;
      values[HALF + j] = Math.fround(d * ((q >> 4) | (((fifths >>> (HALF + j)) & 1) << 4))) + m;
    }
  },
};
