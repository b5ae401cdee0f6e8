import { type BlockFormat, regroupFifths } from "./block_format.ts";

const HALF = 16;
const COMMON = { blockElements: 2 * HALF, headerBytes: 0, scaleRun: 8 } as const;

/** Blocks of 32: f16 scale d, 16 bytes q; element j is d · ((q[j] & 15) − 8), element 16 + j is d · ((q[j] >> 4) − 8). */
export const Q4_0: BlockFormat = {
  name: "q4_0",
  ...COMMON,
  blockBytes: 2 + HALF,
  groupBlocks: 8,
  looseScale: 0,
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

/** Blocks of 32: f16 factor d, f16 m, 16 bytes q; element j is d · (q[j] & 15) + m, element 16 + j is d · (q[j] >> 4) + m. */
export const Q4_1: BlockFormat = {
  name: "q4_1",
  ...COMMON,
  blockBytes: 4 + HALF,
  groupBlocks: 4,
  integerBits: 4,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    const m = block.getFloat16(2, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(4 + j);
      values[j] = Math.fround(d * (q & 15)) + m;
      values[HALF + j] = Math.fround(d * (q >> 4)) + m;
    }
  },
};

/**
 * Blocks of 32: f16 scale d, fifth bits in a `u32` h, 16 bytes q; element j is d · (((q[j] & 15) | 16 · bit j of h) − 16),
 * element 16 + j likewise with q[j] >> 4 and bit 16 + j.
 */
export const Q5_0: BlockFormat = {
  name: "q5_0",
  ...COMMON,
  blockBytes: 6 + HALF,
  groupBlocks: 8,
  looseScale: 0,
  integerBits: 5,
  shuffle: regroupFifths,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    const fifths = block.getUint32(2, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(6 + j);
      values[j] = d * (((q & 15) | (((fifths >>> j) & 1) << 4)) - 16);
      values[HALF + j] = d * (((q >> 4) | (((fifths >>> (HALF + j)) & 1) << 4)) - 16);
    }
  },
};

/**
 * Blocks of 32: f16 factor d, f16 m, fifth bits in a `u32` h, 16 bytes q; element j is d · ((q[j] & 15) | 16 · bit j of h) + m,
 * element 16 + j likewise with q[j] >> 4 and bit 16 + j.
 */
export const Q5_1: BlockFormat = {
  name: "q5_1",
  ...COMMON,
  blockBytes: 8 + HALF,
  groupBlocks: 2,
  integerBits: 5,
  // A block is 6 words: d and m, fifth bits, 4 of nibbles.
  shuffle: (words, at) => regroupFifths(words, at + 1),
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    const m = block.getFloat16(2, true);
    const fifths = block.getUint32(4, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(8 + j);
      values[j] = Math.fround(d * ((q & 15) | (((fifths >>> j) & 1) << 4))) + m;
      values[HALF + j] = Math.fround(d * ((q >> 4) | (((fifths >>> (HALF + j)) & 1) << 4))) + m;
    }
  },
};

/** Blocks of 32: f16 scale d, int8 q[32]; element j is d · q[j]. */
export const Q8_0: BlockFormat = {
  name: "q8_0",
  ...COMMON,
  blockBytes: 2 + 2 * HALF,
  groupBlocks: 8,
  looseScale: 0,
  integerBits: 8,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    for (let j = 0; j < 2 * HALF; j++) values[j] = d * block.getInt8(2 + j);
  },
};

/** What the sixteen numbers stand for: closer to each other near zero. */
export const IQ4_VALUES: readonly number[] = [
  ...[-127, -104, -83, -65, -49, -35, -22, -10],
  ...[1, 13, 25, 38, 53, 69, 89, 113],
];

/** Blocks of 32 as in `q4_0`; element j is d · VALUES[q[j] & 15], element 16 + j is d · VALUES[q[j] >> 4]. */
export const IQ4_NL: BlockFormat = {
  name: "iq4_nl",
  ...COMMON,
  blockBytes: 2 + HALF,
  groupBlocks: 8,
  looseScale: 0,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(2 + j);
      values[j] = d * IQ4_VALUES[q & 15]!;
      values[HALF + j] = d * IQ4_VALUES[q >> 4]!;
    }
  },
};

/** Twice what the sixteen numbers stand for, which are floats of a sign, 2 bits of exponent and one of mantissa. */
export const MXFP4_VALUES: readonly number[] = [
  ...[0, 1, 2, 3, 4, 6, 8, 12],
  ...[0, -1, -2, -3, -4, -6, -8, -12],
];

/**
 * Blocks of 32: an exponent e of one byte, 16 bytes q; element j is 2^(e − 128) · VALUES[q[j] & 15], element 16 + j
 * likewise with q[j] >> 4. For e of 0 and 1 kernels give zeros: what is meant is below the normal f32 numbers.
 */
export const MXFP4: BlockFormat = {
  name: "mxfp4",
  ...COMMON,
  blockBytes: 1 + HALF,
  groupBlocks: 16,
  looseScale: 0,
  looseBytes: 1,
  decodeBlock(block, values) {
    const d = 2 ** (block.getUint8(0) - 128);
    for (let j = 0; j < HALF; j++) {
      const q = block.getUint8(1 + j);
      values[j] = d * MXFP4_VALUES[q & 15]!;
      values[HALF + j] = d * MXFP4_VALUES[q >> 4]!;
    }
  },
};
