import { type BlockFormat, joinPairs, pairNibbles } from "./block_format.ts";
import { IQ4_VALUES } from "./blocks_32.ts";

const ELEMENTS = 256;
const COMMON = { blockElements: ELEMENTS, headerBytes: 0 } as const;
/** Elements that share a scale: of `q4_k`, `q5_k` and `iq4_xs`, and of `q2_k`, `q3_k` and `q6_k`. */
const PART = 32;
const SMALL_PART = 16;

/** Bytes of d, dmin and the packed 6-bit scales. */
const K_HEADER_BYTES = 16;

/**
 * Factor and offset of part `part` of a block of `q4_k` or `q5_k`, which start alike: f16 d, f16 dmin, and 6-bit
 * S and M of 8 parts in 12 bytes. The first four have theirs in the low six bits of a byte each; those of the
 * others lie four bits in the last four bytes and two bits on top of the first eight.
 */
function kScale(block: DataView, part: number): { factor: number; offset: number } {
  const byte = (i: number) => block.getUint8(4 + i);
  const s = part < 4 ? byte(part) & 63 : (byte(part + 4) & 15) | ((byte(part - 4) >> 6) << 4);
  const m = part < 4 ? byte(part + 4) & 63 : (byte(part + 4) >> 4) | ((byte(part) >> 6) << 4);
  return {
    factor: Math.fround(block.getFloat16(0, true) * s),
    offset: Math.fround(block.getFloat16(2, true) * m),
  };
}

/** One part's nibbles after another's: the 32 words from `at` on, of which eight hold two parts. */
function shuffleParts(words: Uint32Array, at: number): void {
  for (let two = at; two < at + ELEMENTS / 8; two += 8) {
    for (let i = two; i < two + 4; i++) {
      const first = words[i]!;
      const second = words[i + 4]!;
      words[i] = pairNibbles(first, second, 0);
      words[i + 4] = pairNibbles(first, second, 4);
    }
  }
}

/**
 * Blocks of 256 in 8 parts of 32: d, dmin and scales (see {@linkcode kScale}), then 128 bytes q. Byte 32g + l has
 * element l of part 2g in its low half and of part 2g + 1 in its high half; an element is (d · S) · q − dmin · M.
 */
export const Q4_K: BlockFormat = {
  name: "q4_k",
  ...COMMON,
  blockBytes: K_HEADER_BYTES + ELEMENTS / 2,
  groupBlocks: 1,
  scaleRun: 8,
  integerBits: 4,
  decodeBlock(block, values) {
    for (let i = 0; i < ELEMENTS; i++) {
      const part = Math.floor(i / PART);
      const { factor, offset } = kScale(block, part);
      const byte = block.getUint8(K_HEADER_BYTES + (part >> 1) * PART + i % PART);
      const q = part % 2 === 0 ? byte & 15 : byte >> 4;
      values[i] = Math.fround(factor * q) - offset;
    }
  },
  // A block is 36 words: 4 of scales, 4 for each part.
  shuffle: (words, at) => shuffleParts(words, at + 4),
};

const FIFTHS = new Uint32Array(8);

/** One part's fifth bits after another's: bit i of byte c of word `part` becomes that of element 4i + c of the part. */
function shuffleFifths(words: Uint32Array, at: number): void {
  FIFTHS.set(words.subarray(at, at + FIFTHS.length));
  for (let part = 0; part < 8; part++) {
    let bits = 0;
    for (let i = 0; i < 8; i++) bits |= ((FIFTHS[i]! >>> part) & 0x01010101) << i;
    words[at + part] = bits;
  }
}

/** Blocks of 256 as in `q4_k`, with 32 bytes of fifth bits between scales and q: bit p of byte l belongs to element l of part p. */
export const Q5_K: BlockFormat = {
  name: "q5_k",
  ...COMMON,
  blockBytes: K_HEADER_BYTES + PART + ELEMENTS / 2,
  groupBlocks: 1,
  scaleRun: 8,
  integerBits: 5,
  decodeBlock(block, values) {
    for (let i = 0; i < ELEMENTS; i++) {
      const part = Math.floor(i / PART);
      const { factor, offset } = kScale(block, part);
      const byte = block.getUint8(K_HEADER_BYTES + PART + (part >> 1) * PART + i % PART);
      const fifth = (block.getUint8(K_HEADER_BYTES + i % PART) >> part) & 1;
      const q = (part % 2 === 0 ? byte & 15 : byte >> 4) + 16 * fifth;
      values[i] = Math.fround(factor * q) - offset;
    }
  },
  // A block is 44 words: 4 of scales, 1 of fifth bits for each part, 4 of nibbles for each part.
  shuffle(words, at) {
    shuffleFifths(words, at + 4);
    shuffleParts(words, at + 12);
  },
};

/** Where the parts of a block start: scales from 0 on, q, d and dmin. */
const Q2_QUANTS = ELEMENTS / SMALL_PART;
const Q2_FACTORS = Q2_QUANTS + ELEMENTS / 4;

const Q2_WORDS = new Uint32Array(21);

/** Factors first, then scales, then two words of q for each 32 elements. */
function shuffleQ2(words: Uint32Array, at: number): void {
  Q2_WORDS.set(words.subarray(at, at + Q2_WORDS.length));
  words[at] = Q2_WORDS[20]!;
  words.set(Q2_WORDS.subarray(0, 4), at + 1);
  joinPairs(Q2_WORDS, 4, words, at + 5);
}

/**
 * Blocks of 256 in 16 parts: a byte for each with S in its low and M in its high half, 64 bytes q, f16 d, f16 dmin. Of
 * half h and quarter k, q are bits 2k, 2k+1 of byte 32h + l; an element is (d · S) · q − dmin · M.
 */
export const Q2_K: BlockFormat = {
  name: "q2_k",
  ...COMMON,
  blockBytes: Q2_FACTORS + 4,
  groupBlocks: 4,
  scaleRun: 4,
  integerBits: 2,
  shuffle: shuffleQ2,
  decodeBlock(block, values) {
    const d = block.getFloat16(Q2_FACTORS, true);
    const dmin = block.getFloat16(Q2_FACTORS + 2, true);
    for (let i = 0; i < ELEMENTS; i++) {
      const scale = block.getUint8(Math.floor(i / SMALL_PART));
      const q = (block.getUint8(Q2_QUANTS + 32 * (i >> 7) + (i & 31)) >> (2 * ((i >> 5) & 3))) & 3;
      values[i] = Math.fround(Math.fround(d * (scale & 15)) * q) - Math.fround(dmin * (scale >> 4));
    }
  },
};

/** Where the parts of a block start: third bits from 0 on, q, scales, d. */
const Q3_QUANTS = ELEMENTS / 8;
const Q3_SCALES = Q3_QUANTS + ELEMENTS / 4;
const Q3_SCALE = Q3_SCALES + 12;

const Q3_WORDS = new Uint32Array(16);

/** A word of third bits for each 32 elements, then two words of q for each; scales stay where they are. */
function shuffleQ3(words: Uint32Array, at: number): void {
  shuffleFifths(words, at);
  Q3_WORDS.set(words.subarray(at + 8, at + 24));
  joinPairs(Q3_WORDS, 0, words, at + 8);
}

/**
 * Blocks of 256 in 16 parts: 32 bytes of third bits, 64 bytes q, 6-bit S of the parts in 12 bytes, f16 d. Of half h
 * and quarter k, q are bits 2k, 2k+1 of byte 32h + l, with bit 4h + k of byte l above them. S[p] has its low four bits in
 * byte p mod 8 and the others in byte 8 + p mod 4; element i is (d · (S[i / 16] − 32)) · (q − 4).
 */
export const Q3_K: BlockFormat = {
  name: "q3_k",
  ...COMMON,
  blockBytes: Q3_SCALE + 2,
  groupBlocks: 8,
  looseScale: Q3_SCALE,
  scaleRun: 4,
  integerBits: 3,
  shuffle: shuffleQ3,
  decodeBlock(block, values) {
    const d = block.getFloat16(Q3_SCALE, true);
    for (let i = 0; i < ELEMENTS; i++) {
      const part = Math.floor(i / SMALL_PART);
      const low = (block.getUint8(Q3_SCALES + (part & 7)) >> (4 * (part >> 3))) & 15;
      const high = (block.getUint8(Q3_SCALES + 8 + (part & 3)) >> (2 * (part >> 2))) & 3;
      const pair = (block.getUint8(Q3_QUANTS + 32 * (i >> 7) + (i & 31)) >> (2 * ((i >> 5) & 3))) &
        3;
      const third = (block.getUint8(i & 31) >> (i >> 5)) & 1;
      values[i] = Math.fround(d * ((low | (high << 4)) - 32)) * ((pair | (third << 2)) - 4);
    }
  },
};

/** Where the parts of a block start: low bits from 0 on, high bits, scales, d. */
const Q6_HIGH = 128;
const Q6_SCALES = Q6_HIGH + 64;
const Q6_SCALE = Q6_SCALES + ELEMENTS / SMALL_PART;

const Q6_BITS = new Uint32Array(48);

/** For each quarter four words of low bits, then for each quarter two words of high bits, those of access i from bit 2i on. */
function shuffleQ6(words: Uint32Array, at: number): void {
  Q6_BITS.set(words.subarray(at, at + Q6_BITS.length));
  for (let part = 0; part < 8; part++) {
    const half = part >> 2;
    const quarter = part & 3;
    const low = 16 * half + 8 * (quarter & 1);
    for (let i = 0; i < 4; i++) {
      words[at + part * 4 + i] = pairNibbles(
        Q6_BITS[low + i]!,
        Q6_BITS[low + i + 4]!,
        quarter < 2 ? 0 : 4,
      );
    }
  }
  joinPairs(Q6_BITS, 32, words, at + 32);
}

/**
 * Blocks of 256 in two halves of four quarters of 32: 128 bytes of low bits, 64 of high bits, int8 S[16], f16 d.
 * In half h, quarter k has low bits in bytes 64h + 32 (k & 1) + l, the low nibble for k < 2, and bits 2k, 2k+1 of
 * byte 32h + l above them; element i is (d · S[i / 16]) · (q − 32).
 */
export const Q6_K: BlockFormat = {
  name: "q6_k",
  ...COMMON,
  blockBytes: Q6_SCALE + 2,
  groupBlocks: 8,
  looseScale: Q6_SCALE,
  scaleRun: 4,
  integerBits: 6,
  shuffle: shuffleQ6,
  decodeBlock(block, values) {
    const d = block.getFloat16(Q6_SCALE, true);
    for (let i = 0; i < ELEMENTS; i++) {
      const half = i >> 7;
      const quarter = (i >> 5) & 3;
      const l = i & 31;
      const low = block.getUint8(64 * half + 32 * (quarter & 1) + l) >> (quarter < 2 ? 0 : 4);
      const high = block.getUint8(Q6_HIGH + 32 * half + l) >> (2 * quarter);
      const q = (low & 15) | ((high & 3) << 4);
      values[i] = Math.fround(d * block.getInt8(Q6_SCALES + Math.floor(i / SMALL_PART))) * (q - 32);
    }
  },
};

/** Bytes of d and the scales. */
const IQ4_XS_HEADER_BYTES = 8;

/**
 * Blocks of 256 in 8 parts of 32: f16 d, high bits of S in a `u16`, two for each part, low bits of S in a nibble for each
 * part, 128 bytes q. Byte 16p + l has element l of part p in its low half and element 16 + l in its high half; an element is
 * (d · (S − 32)) · VALUES[q], with the values of `iq4_nl`.
 */
export const IQ4_XS: BlockFormat = {
  name: "iq4_xs",
  ...COMMON,
  blockBytes: IQ4_XS_HEADER_BYTES + ELEMENTS / 2,
  groupBlocks: 2,
  scaleRun: 8,
  decodeBlock(block, values) {
    const d = block.getFloat16(0, true);
    const high = block.getUint16(2, true);
    const low = block.getUint32(4, true);
    for (let part = 0; part < ELEMENTS / PART; part++) {
      const scale = ((low >>> (4 * part)) & 15) | (((high >> (2 * part)) & 3) << 4);
      const factor = Math.fround(d * (scale - 32));
      for (let l = 0; l < PART / 2; l++) {
        const q = block.getUint8(IQ4_XS_HEADER_BYTES + part * PART / 2 + l);
        values[part * PART + l] = factor * IQ4_VALUES[q & 15]!;
        values[part * PART + PART / 2 + l] = factor * IQ4_VALUES[q >> 4]!;
      }
    }
  },
};
