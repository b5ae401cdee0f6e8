import type { BlockFormat } from "./block_format.ts";

const ELEMENTS = 32;

/** Blocks of 32: f16 scale d, int8 q[32]; element j is d · q[j]. */
export const Q8_0: BlockFormat = {
  name: "q8_0",
  blockElements: ELEMENTS,
  blockBytes: 2 + ELEMENTS,
  groupBlocks: 8,
  looseScale: 0,
  headerBytes: 0,
  scaleRun: 8,
  integerBits: 8,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    for (let j = 0; j < ELEMENTS; j++) values[j] = d * block.getInt8(2 + j);
  },
};
