import type { BlockFormat } from "./block_format.ts";

const HALF = 16;

/** Blocks of 32: f16 scale d, 16 bytes q; element j is d · ((q[j] & 15) − 8), element 16 + j is d · ((q[j] >> 4) − 8). */
export const Q4_0: BlockFormat = {
  name: "q4_0",
  blockElements: 2 * HALF,
  blockBytes: 2 + HALF,
  groupBlocks: 8,
  looseScale: 0,
  headerBytes: 0,
  scaleRun: 8,
  integerBits: 4,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(2 + j);
      values[j] = d * ((q & 15) - 8);
      values[HALF + j] = d * ((q >> 4) - 8);
    }
  },
};
