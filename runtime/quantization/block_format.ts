/** What the storage formats of quantised weights have in common; their own files say how each one counts. */

/**
 * Storage formats of weights that are decoded inside the kernels. `q*`, `iq*` and `mxfp4` are the blocks of ggml:
 * those of 32 elements share a scale among them, the `k` formats and `iq4_xs` nest scales in blocks of 256. `f8_*` are one
 * byte per element and one scale per tensor.
 */
export type WeightFormat =
  | "q8_0"
  | "q5_1"
  | "q5_0"
  | "q4_1"
  | "q4_0"
  | "q6_k"
  | "q5_k"
  | "q4_k"
  | "q3_k"
  | "q2_k"
  | "iq4_nl"
  | "iq4_xs"
  | "mxfp4"
  | "f8_e4m3"
  | "f8_e5m2";

/**
 * One format: its blocks in files, how they lie on the device, and how those of files are decoded. Those on the device are
 * decoded by `shaders/formats/NAME.wgsl`.
 *
 * On the device a tensor is `headerBytes`, then groups of `groupBlocks` blocks: first what is left of each block
 * without its loose scale, then the loose scales in the same order. So everything but those lies on whole
 * `vec4<u32>` (whole `u32` where a block of 32 has an offset or fifth bits, in `q2_k`, `q3_k` and `iq4_xs`), nothing depends on the tensor's shape, and no byte is added but at the end of the last group. Within a
 * block, `shuffle` brings together the bits of 32 elements that follow each other, so that they take few loads.
 */
export interface BlockFormat {
  /** Name of the format. */
  readonly name: WeightFormat;
  /** Elements of a block, neighbours in a row; rows are whole blocks. */
  readonly blockElements: number;
  /** Bytes of a block in files. */
  readonly blockBytes: number;
  /** Blocks that are repacked together. */
  readonly groupBlocks: number;
  /** Where in a block the scale lies that moves behind the group; nothing moves by default. */
  readonly looseScale?: number;
  /** Bytes of that scale, 2 by default. */
  readonly looseBytes?: 1 | 2;
  /** Puts the `u32`s of one block, from number `at` on and without its loose scale, in the order that its file in `shaders/formats/` reads. */
  shuffle?(words: Uint32Array, at: number): void;
  /** Bytes in front of the first group: 16 where a format has a scale for the tensor, which is their first f32. */
  readonly headerBytes: 0 | 16;
  /** What each byte stands for, where each is an element. */
  readonly byteValues?: Float64Array;
  /** Bytes that stand for NaN, which kernels would read as numbers. */
  readonly nanBytes?: readonly number[];
  /** `vec4`s of elements with one scale, counted from the start of a row; `row` when a row has only one. */
  readonly scaleRun: 4 | 8 | "row";
  /**
   * Bits of the integers that elements are, times a factor and with an offset, so that products of integers may be summed
   * before they are scaled; those of 8 bits are signed, and have no offset. Left out where they are no such integers.
   */
  readonly integerBits?: 2 | 3 | 4 | 5 | 6 | 8;
  /** Decodes one block: f32 arithmetic in ggml's order, so that every bit is as there. */
  decodeBlock(block: DataView, values: Float32Array): void;
}

/** Four elements' low nibbles, and in the high ones those of the elements 16 later: what `q4_0` has in files too. */
export function pairNibbles(word: number, later: number, shift: 0 | 4): number {
  return ((word >>> shift) & 0x0f0f0f0f) | (((later >>> shift) & 0x0f0f0f0f) << 4);
}

/** Bits 2k, 2k+1 of the four words from `at` on, one access after the other: those of access i from bit 2i on. */
function takePairs(words: Uint32Array, at: number, k: number): number {
  let bits = 0;
  for (let i = 0; i < 4; i++) bits |= ((words[at + i]! >>> (2 * k)) & 0x03030303) << (2 * i);
  return bits;
}

/**
 * 256 numbers of two bits, 32 after 32 in two words each. In `source` from `from` on, half h and quarter k have theirs in
 * bits 2k, 2k+1 of words 8h to 8h + 7.
 */
export function joinPairs(
  source: Uint32Array,
  from: number,
  target: Uint32Array,
  at: number,
): void {
  for (let part = 0; part < 8; part++) {
    for (let word = 0; word < 2; word++) {
      target[at + 2 * part + word] = takePairs(
        source,
        from + 8 * (part >> 2) + 4 * word,
        part & 3,
      );
    }
  }
}

/** Brings together the fifth bits of one access: bit i of byte c becomes that of element 4i + c. */
export function regroupFifths(words: Uint32Array, at: number): void {
  const fifths = words[at]!;
  let bits = 0;
  for (let element = 0; element < 32; element++) {
    bits |= ((fifths >>> element) & 1) << (8 * (element & 3) + (element >> 2));
  }
  words[at] = bits;
}
