import type { BlockFormat } from "./block_format.ts";

const HALF = 16;

/** Twice what the sixteen numbers stand for, which are floats of a sign, 2 bits of exponent and one of mantissa. */
export const MXFP4_VALUES: readonly number[] = [
  0,
  1,
  2,
  3,
  4,
  6,
  8,
  12,
  0,
  -1,
  -2,
  -3,
  -4,
  -6,
  -8,
  -12,
];

/**
 * Blocks of 32: an exponent e of one byte, 16 bytes q; element j is 2^(e − 128) · VALUES[q[j] & 15], element 16 + j
 * likewise with q[j] >> 4. For e of 0 and 1 kernels give zeros: what is meant is below the normal f32 numbers.
 */
export const MXFP4: BlockFormat = {
  name: "mxfp4",
  blockElements: 2 * HALF,
  blockBytes: 1 + HALF,
  groupBlocks: 16,
  looseScale: 0,
  looseBytes: 1,
  headerBytes: 0,
  scaleRun: 8,
  decodeBlock(block, values) {
    const d = 2 ** (block.getUint8(0) - 128);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(1 + j);
      values[j] = d * MXFP4_VALUES[q & 15]!;
      values[HALF + j] = d * MXFP4_VALUES[q >> 4]!;
    }
  },
};
