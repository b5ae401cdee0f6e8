import type { BlockFormat } from "./block_format.ts";

const HALF = 16;
/** Where the nibbles begin. */
const QUANTS = 4;

/** Blocks of 32: f16 factor d, f16 m, 16 bytes q; element j is d · (q[j] & 15) + m, element 16 + j is d · (q[j] >> 4) + m. */
export const Q4_1: BlockFormat = {
  name: "q4_1",
  blockElements: 2 * HALF,
  blockBytes: QUANTS + HALF,
  groupBlocks: 4,
  headerBytes: 0,
  scaleRun: 8,
  integerBits: 4,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    const m = block.getFloat16(2, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(QUANTS + j);
      values[j] = Math.fround(d * (q & 15)) + m;
      values[HALF + j] = Math.fround(d * (q >> 4)) + m;
    }
  },
};
