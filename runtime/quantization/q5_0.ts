import { type BlockFormat, regroupFifths } from "./block_format.ts";

const HALF = 16;
/** Where the nibbles begin. */
const QUANTS = 6;

/**
 * Blocks of 32: f16 scale d, fifth bits in a `u32` h, 16 bytes q; element j is d · (((q[j] & 15) | 16 · bit j of h) − 16),
 * element 16 + j likewise with q[j] >> 4 and bit 16 + j.
 */
export const Q5_0: BlockFormat = {
  name: "q5_0",
  blockElements: 2 * HALF,
  blockBytes: QUANTS + HALF,
  groupBlocks: 8,
  looseScale: 0,
  headerBytes: 0,
  scaleRun: 8,
  integerBits: 5,
  shuffle: regroupFifths,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    const fifths = block.getUint32(2, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(QUANTS + j);
      values[j] = d * (((q & 15) | (((fifths >>> j) & 1) << 4)) - 16);
      values[HALF + j] = d * (((q >> 4) | (((fifths >>> (HALF + j)) & 1) << 4)) - 16);
    }
  },
};
