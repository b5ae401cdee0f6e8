/** What the storage formats of quantised weights have in common; their own files say how each one counts. */

/**
 * Storage formats of weights that are decoded inside the kernels. `q*` are the blocks of ggml: `q8_0`, `q5_0` and
 * `q4_0` share a scale among 32 elements, the `k` formats nest scales in blocks of 256. `f8_e4m3` is one byte per element
 * and one scale per tensor.
 */
export type WeightFormat = "q8_0" | "q5_0" | "q4_0" | "q4_k" | "q5_k" | "q6_k" | "f8_e4m3";

/**
 * One format: its blocks in files, how they lie on the device, and how both are decoded.
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
  /** Puts the `u32`s of one block, from number `at` on and without its loose scale, in the order that `decoder` reads. */
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
  /**
   * WGSL of the functions by which kernels read a buffer NAME. They find the device's layout behind `NAME_word(i)`,
   * its i-th `vec4<u32>`, and `NAME_u32(i)`, its i-th `u32`:
   *
   * - `NAME_scale(i: u32) -> vec2<f32>`: factor and offset of access i;
   * - `NAME_scaled(i: u32, s: vec2<f32>) -> vec4<f32>`: access i, elements 4i … 4i+3, given these;
   * - unless a row has only one scale, `NAME_run(i: u32) -> NAME_Run`: accesses i … i+7 still packed, where i is a
   *   multiple of 8, with few and wide loads; see {@linkcode runAccessWgsl};
   * - with {@linkcode BlockFormat.isInt8}, `NAME_int8(i: u32) -> vec4<u32>`: elements 16i … 16i+15 without the factor.
   */
  decoder(name: string): string;
}

/** `vec4`s of elements in a run. */
export const RUN_ACCESSES = 8;

/**
 * WGSL of `NAME_run`: its statements declare the accesses as bytes `p0` and `p1`, and `s`, the factors of the first and
 * the last four accesses, then what is added to them.
 */
export function runWgsl(name: string, statements: string): string {
  return `struct ${name}_Run { p0: vec4<u32>, p1: vec4<u32>, s: vec4<f32> }
fn ${name}_run(i: u32) -> ${name}_Run {
${statements}
  return ${name}_Run(p0, p1, s);
}`;
}

/** WGSL of access j of `run`, a variable: decoded where it is used, all at once would not fit into registers. */
export function runAccessWgsl(run: string, j: number): string {
  const [word, factor, offset] = j < 4 ? ["p0", "x", "z"] : ["p1", "y", "w"];
  const bytes = bytesWgsl(`${run}.${word}.${"xyzw"[j % 4]}`);
  return `fma(vec4<f32>(${run}.s.${factor}), vec4<f32>(${bytes}), vec4<f32>(${run}.s.${offset}))`;
}

/** Four elements' low nibbles, and in the high ones those of the elements 16 later: what `q4_0` has in files too. */
export function pairNibbles(word: number, later: number, shift: 0 | 4): number {
  return ((word >>> shift) & 0x0f0f0f0f) | (((later >>> shift) & 0x0f0f0f0f) << 4);
}

/** WGSL of the four bytes of `word`, an expression, as `vec4<u32>`. */
export function bytesWgsl(word: string): string {
  return `(vec4<u32>(${word}) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)`;
}

/** WGSL of f16 number `index` among those from `u32` number `first` on; both are expressions. */
export function halfWgsl(name: string, first: string, index: string): string {
  return `unpack2x16float(${name}_u32(${first} + ((${index}) >> 1u)) >> (((${index}) & 1u) * 16u)).x`;
}
