/** What the storage formats of quantised weights have in common; their own files say how each one counts. */

/**
 * Storage formats of weights that are decoded inside the kernels. `q*` are the blocks of ggml: `q8_0`, `q5_0` and
 * `q4_0` share a scale among 32 elements, the `k` formats nest scales in blocks of 256. `f8_e4m3` is one byte per element
 * and one scale per tensor.
 */
export type WeightFormat = "q8_0" | "q5_0" | "q4_0" | "q4_k" | "q5_k" | "q6_k" | "f8_e4m3";

/**
 * One format: its blocks in files, how they lie on the device, and how those of files are decoded. Those on the device are
 * decoded by `shaders/formats/NAME.wgsl`.
 *
 * On the device a tensor is `headerBytes`, then groups of `groupBlocks` blocks: first what is left of each block
 * without its loose scale, then the loose scales in the same order. So everything but those lies on whole
 * `vec4<u32>` (whole `u32` in `q5_0`), nothing depends on the tensor's shape, and no byte is added but at the end of the last group. Within a
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
  /** Where in a block the f16 lies that moves behind the group; nothing moves when it is left out. */
  readonly looseScale?: number;
  /** Puts the `u32`s of one block, from number `at` on and without its loose scale, in the order that its file in `shaders/formats/` reads. */
  shuffle?(words: Uint32Array, at: number): void;
  /** Bytes in front of the first group: 16 where a format has a scale for the tensor, which is their first f32. */
  readonly headerBytes: 0 | 16;
  /** Bytes that stand for NaN, which kernels would read as numbers. */
  readonly nanBytes?: readonly number[];
  /** `vec4`s of elements with one scale, counted from the start of a row; `row` when a row has only one. */
  readonly scaleRun: 4 | 8 | "row";
  /** Elements are signed bytes times a factor, so that products of integers may be summed before they are scaled. */
  readonly isInt8?: true;
  /** Decodes one block: f32 arithmetic in ggml's order, so that every bit is as there. */
  decodeBlock(block: DataView, values: Float32Array): void;
}

/** Four elements' low nibbles, and in the high ones those of the elements 16 later: what `q4_0` has in files too. */
export function pairNibbles(word: number, later: number, shift: 0 | 4): number {
  return ((word >>> shift) & 0x0f0f0f0f) | (((later >>> shift) & 0x0f0f0f0f) << 4);
}
