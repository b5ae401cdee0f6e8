/** All formats of quantised weights, and what follows from one for a tensor: sizes, decoding, repacking. */
import { elementCount, formatShape, type Shape } from "../shape.ts";
import type { BlockFormat, WeightFormat } from "./block_format.ts";
import { IQ4_XS, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K } from "./blocks_256.ts";
import { IQ4_NL, MXFP4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 } from "./blocks_32.ts";
import { F8_E4M3, F8_E5M2 } from "./f8.ts";
import type { BlockDecoder } from "./decoded_formats.ts";

export const BLOCK_FORMATS: Readonly<Record<WeightFormat, BlockFormat>> = {
  q8_0: Q8_0,
  q5_1: Q5_1,
  q5_0: Q5_0,
  q4_1: Q4_1,
  q4_0: Q4_0,
  q6_k: Q6_K,
  q5_k: Q5_K,
  q4_k: Q4_K,
  q3_k: Q3_K,
  q2_k: Q2_K,
  iq4_nl: IQ4_NL,
  iq4_xs: IQ4_XS,
  mxfp4: MXFP4,
  f8_e4m3: F8_E4M3,
  f8_e5m2: F8_E5M2,
};

/** True for the formats of quantised weights. */
export function isWeightFormat(format: string): format is WeightFormat {
  return Object.hasOwn(BLOCK_FORMATS, format);
}

export function checkBlocks(name: string, shape: Shape, format: WeightFormat): void {
  const { blockElements } = BLOCK_FORMATS[format];
  if (shape.length === 0 || shape.at(-1)! % blockElements !== 0) {
    throw new RangeError(
      `Cannot store tensor "${name}" ${formatShape(shape)} as ${format}: its rows must be whole ` +
        `blocks of ${blockElements} elements`,
    );
  }
}

/** Bytes of the elements of `shape` in files. */
export function blockBytes(shape: Shape, format: WeightFormat): number {
  const { blockElements, blockBytes } = BLOCK_FORMATS[format];
  return elementCount(shape) / blockElements * blockBytes;
}

/** Bytes of the elements of `shape` on the device. */
export function repackedBytes(shape: Shape, format: WeightFormat): number {
  const { blockElements, blockBytes, groupBlocks, headerBytes } = BLOCK_FORMATS[format];
  const groups = Math.ceil(elementCount(shape) / (blockElements * groupBlocks));
  return headerBytes + groups * groupBlocks * blockBytes;
}

/**
 * Decodes blocks as files hold them, with ggml's f32 arithmetic.
 *
 * @param blocks whole blocks; of `f8_*`, whose elements have nothing in common, any number of bytes
 * @param scale multiplies every element; only `f8_*` have one
 * @throws {RangeError} when the bytes end inside a block
 */
export function dequantize(
  blocks: Uint8Array,
  format: WeightFormat,
  scale = 1,
): Float32Array<ArrayBuffer> {
  const { byteValues } = BLOCK_FORMATS[format];
  if (byteValues) return Float32Array.from(blocks, (byte) => byteValues[byte]! * scale);
  return decodeBlocks(blocks, BLOCK_FORMATS[format], format, scale);
}

export function decodeBlocks(
  blocks: Uint8Array,
  { blockElements, blockBytes, decodeBlock }: BlockDecoder,
  format: string,
  scale = 1,
): Float32Array<ArrayBuffer> {
  const count = wholeBlocks(blocks, blockBytes, format);
  const values = new Float32Array(count * blockElements);
  for (let i = 0; i < count; i++) {
    decodeBlock(
      new DataView(blocks.buffer, blocks.byteOffset + i * blockBytes, blockBytes),
      values.subarray(i * blockElements, (i + 1) * blockElements),
    );
  }
  return scale === 1 ? values : values.map((value) => value * scale);
}

/** Gives bytes at the start of a buffer, so that many results need not be garbage one after the other. */
export type Room = (byteLength: number) => Uint8Array<ArrayBuffer>;

/** Brings whole blocks, from the first of a group on, into the device's layout; those that lie the same are not copied. */
export function repack(
  blocks: Uint8Array,
  format: WeightFormat,
  room: Room = (byteLength) => new Uint8Array(byteLength),
): Uint8Array {
  const { blockBytes, groupBlocks, looseScale, looseBytes = 2, shuffle } = BLOCK_FORMATS[format];
  const count = wholeBlocks(blocks, blockBytes, format);
  if (looseScale === undefined && !shuffle) return blocks;
  // Blocks and the places of their loose scales are whole units of the latter's size.
  const even = blocks.byteOffset % 2 === 0 ? blocks : blocks.slice();
  const UnitArray = looseBytes === 1 ? Uint8Array : Uint16Array;
  const source = new UnitArray(
    even.buffer as ArrayBuffer,
    even.byteOffset,
    even.byteLength / looseBytes,
  );
  const packed = room(Math.ceil(count / groupBlocks) * groupBlocks * blockBytes);
  packed.fill(0, Math.floor(count / groupBlocks) * groupBlocks * blockBytes);
  const target = new UnitArray(packed.buffer, 0, packed.byteLength / looseBytes);
  const words = new Uint32Array(packed.buffer, 0, Math.floor(packed.byteLength / 4));
  const size = blockBytes / looseBytes;
  if (looseScale === undefined) {
    target.set(source);
    for (let block = 0; block < count; block++) shuffle!(words, block * blockBytes / 4);
    return packed;
  }
  const scaleAt = looseScale / looseBytes;
  const restSize = size - 1;
  for (let block = 0; block < count; block++) {
    const inGroup = block % groupBlocks;
    const from = block * size;
    const group = (block - inGroup) * size;
    const rest = group + inGroup * restSize;
    for (let i = 0; i < scaleAt; i++) target[rest + i] = source[from + i]!;
    target[group + groupBlocks * restSize + inGroup] = source[from + scaleAt]!;
    for (let i = scaleAt; i < restSize; i++) target[rest + i] = source[from + i + 1]!;
    shuffle?.(words, rest * looseBytes / 4);
  }
  return packed;
}

/** Rows of a tensor that are whole groups: what is uploaded in parts is cut at multiples of it. */
export function rowsPerGroup(shape: Shape, format: WeightFormat): number {
  const { blockElements, groupBlocks } = BLOCK_FORMATS[format];
  const rowBlocks = shape.at(-1)! / blockElements;
  let rows = 1;
  while (rows * rowBlocks % groupBlocks !== 0) rows++;
  return rows;
}

function wholeBlocks(bytes: Uint8Array, blockBytes: number, format: string): number {
  if (bytes.byteLength % blockBytes !== 0) {
    throw new RangeError(
      `Cannot decode ${bytes.byteLength} bytes of ${format}: they end inside a block of ${blockBytes} bytes`,
    );
  }
  return bytes.byteLength / blockBytes;
}
