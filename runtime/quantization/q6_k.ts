import { type BlockFormat, joinPairs, pairNibbles } from "./block_format.ts";

/** Elements of a block, and with one scale. */
const ELEMENTS = 256;
const PART = 16;
/** Where the parts of a block start: low bits from 0 on, high bits, scales, d. */
const HIGH = 128;
const SCALES = HIGH + 64;
const SCALE = SCALES + ELEMENTS / PART;

/** Scratch words of {@linkcode shuffle}. */
const BITS = new Uint32Array(48);

/** For each quarter four words of low bits, then for each quarter two words of high bits, those of access i from bit 2i on. */
function shuffle(words: Uint32Array, at: number): void {
  BITS.set(words.subarray(at, at + BITS.length));
  for (let part = 0; part < 8; part++) {
    const half = part >> 2;
    const quarter = part & 3;
    const low = 16 * half + 8 * (quarter & 1);
    for (let i = 0; i < 4; i++) {
      words[at + part * 4 + i] = pairNibbles(
        BITS[low + i]!,
        BITS[low + i + 4]!,
        quarter < 2 ? 0 : 4,
      );
    }
  }
  joinPairs(BITS, 32, words, at + 32);
}

/**
 * Blocks of 256 in two halves of four quarters of 32: 128 bytes of low bits, 64 of high bits, int8 S[16], f16 d.
 * In half h, quarter k has low bits in bytes 64h + 32 (k & 1) + l, the low nibble for k < 2, and bits 2k, 2k+1 of
 * byte 32h + l above them; element i is (d · S[i / 16]) · (q − 32).
 */
export const Q6_K: BlockFormat = {
  name: "q6_k",
  blockElements: ELEMENTS,
  blockBytes: SCALE + 2,
  groupBlocks: 8,
  looseScale: SCALE,
  headerBytes: 0,
  scaleRun: 4,
  integerBits: 6,
  shuffle,
  decodeBlock(block, values) {
    const d = block.getFloat16(SCALE, true);
    for (let i = 0; i < ELEMENTS; i++) {
      const half = i >> 7;
      const quarter = (i >> 5) & 3;
      const l = i & 31;
      const low = block.getUint8(64 * half + 32 * (quarter & 1) + l) >> (quarter < 2 ? 0 : 4);
      const high = block.getUint8(HIGH + 32 * half + l) >> (2 * quarter);
      const q = (low & 15) | ((high & 3) << 4);
      values[i] = Math.fround(d * block.getInt8(SCALES + Math.floor(i / PART))) * (q - 32);
    }
  },
};
