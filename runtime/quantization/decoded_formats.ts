/** Formats that hardly any file has, decoded when read: ggml's IQ1 to IQ3 and ternary ones, as its `dequantize_row_*`. */
import {
  type Codebook,
  IQ1_S_CODEBOOK,
  IQ2_S_CODEBOOK,
  IQ2_XS_CODEBOOK,
  IQ2_XXS_CODEBOOK,
  IQ3_S_CODEBOOK,
  IQ3_XXS_CODEBOOK,
} from "./codebooks.ts";

export interface BlockDecoder {
  /** Elements of a block, neighbours in a row; rows are whole blocks. */
  readonly blockElements: number;
  readonly blockBytes: number;
  /** Decodes one block: f32 arithmetic in ggml's order, so that every bit is as there. */
  decodeBlock(block: DataView, values: Float32Array): void;
}

const ELEMENTS = 256;
const { fround } = Math;

/** Seven signs in a byte; the eighth makes their number even. */
const SIGNS = Uint8Array.from({ length: 128 }, (_, i) => {
  let odd = 0;
  for (let bit = 0; bit < 7; bit++) odd ^= (i >> bit) & 1;
  return i | (odd << 7);
});

/** A block of 256 elements whose bytes end in, or begin with, an f16. */
function decoder(
  blockBytes: number,
  decodeBlock: (block: DataView, values: Float32Array) => void,
): BlockDecoder {
  return { blockElements: ELEMENTS, blockBytes, decodeBlock };
}

/** Writes factor · vector, with a sign for each number. */
function putVector(
  values: Float32Array,
  at: number,
  factor: number,
  { length, values: all }: Codebook,
  index: number,
  signs: number,
): void {
  for (let i = 0; i < length; i++) {
    const value = factor * all[index * length + i]!;
    values[at + i] = (signs >> i) & 1 ? -value : value;
  }
}

/** A vector of −1, 0 and 1, moved a little. */
function putTernary(
  values: Float32Array,
  at: number,
  factor: number,
  index: number,
  isDown: boolean,
): void {
  const { length, values: all } = IQ1_S_CODEBOOK;
  const delta = isDown ? -0.125 : 0.125;
  for (let i = 0; i < length; i++) values[at + i] = factor * (all[index * length + i]! + delta);
}

/** A nibble of consecutive bytes. */
function nibble(block: DataView, start: number, i: number): number {
  return (block.getUint8(start + (i >> 1)) >> (4 * (i & 1))) & 15;
}

/** d · (0.5 + s) · share, each product rounded. */
function halfScale(d: number, s: number, share: number): number {
  return fround(fround(d * (0.5 + s)) * share);
}

const IQ2_XXS = decoder(66, (block, values) => {
  const d = block.getFloat16(0, true);
  for (let part = 0; part < 8; part++) {
    const at = 2 + 8 * part;
    const word = block.getUint32(at + 4, true);
    const factor = halfScale(d, word >>> 28, 0.25);
    for (let l = 0; l < 4; l++) {
      const signs = SIGNS[(word >>> (7 * l)) & 127]!;
      const index = block.getUint8(at + l);
      putVector(values, 32 * part + 8 * l, factor, IQ2_XXS_CODEBOOK, index, signs);
    }
  }
});

const IQ2_XS = decoder(74, (block, values) => {
  const d = block.getFloat16(0, true);
  for (let i = 0; i < 32; i++) {
    const q = block.getUint16(2 + 2 * i, true);
    const factor = halfScale(d, nibble(block, 66, i >> 1), 0.25);
    putVector(values, 8 * i, factor, IQ2_XS_CODEBOOK, q & 511, SIGNS[q >> 9]!);
  }
});

const IQ2_S = decoder(82, (block, values) => {
  const d = block.getFloat16(0, true);
  for (let i = 0; i < 32; i++) {
    const high = (block.getUint8(66 + (i >> 2)) >> (2 * (i & 3))) & 3;
    const factor = halfScale(d, nibble(block, 74, i >> 1), 0.25);
    const index = block.getUint8(2 + i) | (high << 8);
    putVector(values, 8 * i, factor, IQ2_S_CODEBOOK, index, block.getUint8(34 + i));
  }
});

const IQ3_XXS = decoder(98, (block, values) => {
  const d = block.getFloat16(0, true);
  for (let part = 0; part < 8; part++) {
    const word = block.getUint32(66 + 4 * part, true);
    const factor = halfScale(d, word >>> 28, 0.5);
    for (let l = 0; l < 8; l++) {
      const signs = SIGNS[(word >>> (7 * (l >> 1))) & 127]! >> (4 * (l & 1));
      const index = block.getUint8(2 + 8 * part + l);
      putVector(values, 32 * part + 4 * l, factor, IQ3_XXS_CODEBOOK, index, signs);
    }
  }
});

const IQ3_S = decoder(110, (block, values) => {
  const d = block.getFloat16(0, true);
  for (let i = 0; i < 64; i++) {
    const high = (block.getUint8(66 + (i >> 3)) >> (i & 7)) & 1;
    const factor = fround(d * (1 + 2 * nibble(block, 106, i >> 3)));
    const signs = block.getUint8(74 + (i >> 1)) >> (4 * (i & 1));
    const index = block.getUint8(2 + i) | (high << 8);
    putVector(values, 4 * i, factor, IQ3_S_CODEBOOK, index, signs);
  }
});

const IQ1_S = decoder(50, (block, values) => {
  const d = block.getFloat16(0, true);
  for (let i = 0; i < 32; i++) {
    const word = block.getUint16(34 + 2 * (i >> 2), true);
    const factor = fround(d * (2 * ((word >> 12) & 7) + 1));
    const index = block.getUint8(2 + i) | (((word >> (3 * (i & 3))) & 7) << 8);
    putTernary(values, 8 * i, factor, index, word >= 0x8000);
  }
});

const IQ1_M = decoder(56, (block, values) => {
  const words = [48, 50, 52, 54].map((at) => block.getUint16(at, true));
  // The scale lies in four parts.
  const bits = new DataView(new ArrayBuffer(2));
  bits.setUint16(0, words.reduce((sum, word, i) => sum | ((word >> 12) << (4 * i)), 0), true);
  const d = bits.getFloat16(0, true);
  for (let i = 0; i < 32; i++) {
    const scale = (words[i >> 3]! >> (3 * ((i >> 1) & 3))) & 7;
    const high = nibble(block, 32, i);
    const index = block.getUint8(i) | ((high & 7) << 8);
    putTernary(values, 8 * i, fround(d * (2 * scale + 1)), index, high >= 8);
  }
});

/** Five ternary digits in a byte, the first in the highest place. */
const TQ1_0 = decoder(54, (block, values) => {
  const d = block.getFloat16(52, true);
  let to = 0;
  for (const [start, count, digits] of [[0, 32, 5], [32, 16, 5], [48, 4, 4]] as const) {
    for (let digit = 0; digit < digits; digit++) {
      for (let i = 0; i < count; i++) {
        const rest = (block.getUint8(start + i) * 3 ** digit) & 255;
        values[to++] = d * (((rest * 3) >> 8) - 1);
      }
    }
  }
});

const TQ2_0 = decoder(66, (block, values) => {
  const d = block.getFloat16(64, true);
  for (let i = 0; i < ELEMENTS; i++) {
    const byte = block.getUint8(32 * (i >> 7) + (i & 31));
    values[i] = d * (((byte >> (2 * ((i >> 5) & 3))) & 3) - 1);
  }
});

/** Formats that are decoded while they are read, by name. */
export const DECODED_FORMATS: Readonly<Record<string, BlockDecoder>> = {
  iq1_s: IQ1_S,
  iq1_m: IQ1_M,
  iq2_xxs: IQ2_XXS,
  iq2_xs: IQ2_XS,
  iq2_s: IQ2_S,
  iq3_xxs: IQ3_XXS,
  iq3_s: IQ3_S,
  tq1_0: TQ1_0,
  tq2_0: TQ2_0,
};
