import type { BlockFormat } from "./block_format.ts";

const HALF = 16;

/** What the sixteen numbers stand for: closer to each other near zero. */
export const IQ4_VALUES: readonly number[] = [
  ...[-127, -104, -83, -65, -49, -35, -22, -10],
  ...[1, 13, 25, 38, 53, 69, 89, 113],
];

/** Blocks of 32 as in `q4_0`; element j is d · VALUES[q[j] & 15], element 16 + j is d · VALUES[q[j] >> 4]. */
export const IQ4_NL: BlockFormat = {
  name: "iq4_nl",
  blockElements: 2 * HALF,
  blockBytes: 2 + HALF,
  groupBlocks: 8,
  looseScale: 0,
  headerBytes: 0,
  scaleRun: 8,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(2 + j);
      values[j] = d * IQ4_VALUES[q & 15]!;
      values[HALF + j] = d * IQ4_VALUES[q >> 4]!;
    }
  },
};
