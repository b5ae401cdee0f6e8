/** From a format in a file to one on the device. */
import type { DType, StorageFormat } from "../dtype.ts";
import type { WeightFormat } from "../quantization/block_format.ts";
import { type BlockDecoder, DECODED_FORMATS } from "../quantization/decoded_formats.ts";
import { BLOCK_FORMATS, decodeBlocks, dequantize } from "../quantization/formats.ts";
import type { Shape } from "../shape.ts";

/**
 * How a weight lies on the device.
 *
 * - `as-stored`: as in the file; matrices stay quantised, or are f16 where no kernel decodes their format, and everything
 *   else is decoded to f32;
 * - `elements`: the same, but decoded to f32 in any case, for matrices that are neither a linear layer's nor gathered
 *   from;
 * - `channels-last`: a convolution's `[out, in, ...taps]` becomes `[out, ...taps, in]`, decoded too.
 */
export type WeightLayout = "as-stored" | "elements" | "channels-last";

const ELEMENT_TYPES: Readonly<Record<string, DType>> = { F32: "f32", F16: "f16", BF16: "bf16" };

const BLOCK_TYPES: ReadonlyMap<string, WeightFormat> = new Map(
  Object.values(BLOCK_FORMATS).map(({ name }) => [name.toUpperCase(), name]),
);

/** Types that are decoded while they are read. */
const DECODED_TYPES: ReadonlyMap<string, BlockDecoder> = new Map(
  Object.entries(DECODED_FORMATS).map(([name, decoder]) => [name.toUpperCase(), decoder]),
);

/** The formats of files that are read, for messages. */
export const READ_FORMATS: readonly string[] = [
  ...Object.keys(ELEMENT_TYPES),
  ...BLOCK_TYPES.keys(),
  ...DECODED_TYPES.keys(),
];

/** How blocks of a format of files become numbers, or nothing where its elements stand by themselves. */
export function decoderOf(
  format: string,
):
  | Pick<BlockDecoder, "blockElements" | "blockBytes"> & {
    decode(blocks: Uint8Array, scale?: number): Float32Array<ArrayBuffer>;
  }
  | undefined {
  const blocks = blockFormatOf(format);
  if (blocks) {
    const { blockElements, blockBytes } = BLOCK_FORMATS[blocks];
    return {
      blockElements,
      blockBytes,
      decode: (bytes, scale) => dequantize(bytes, blocks, scale),
    };
  }
  const decoder = DECODED_TYPES.get(format);
  return decoder && {
    ...decoder,
    decode: (bytes, scale) => decodeBlocks(bytes, decoder, format, scale),
  };
}

/** The blocks that a format of files has, or nothing. */
export function blockFormatOf(format: string): WeightFormat | undefined {
  return BLOCK_TYPES.get(format);
}

/** The element type that a format of files is, or nothing. */
export function elementTypeOf(format: string): DType | undefined {
  return Object.hasOwn(ELEMENT_TYPES, format) ? ELEMENT_TYPES[format] : undefined;
}

export function storageOf(
  format: string,
  shape: Shape,
  layout: WeightLayout,
): StorageFormat | undefined {
  const blocks = blockFormatOf(format);
  if (!blocks && DECODED_TYPES.has(format)) {
    return layout === "as-stored" && shape.length === 2 ? "f16" : "f32";
  }
  if (!blocks) return elementTypeOf(format);
  const isMatrix = layout === "as-stored" && shape.length === 2 &&
    shape[1]! % BLOCK_FORMATS[blocks].blockElements === 0;
  return isMatrix ? blocks : "f32";
}

/** Rows of [channels, taps] as rows of [taps, channels]. */
export function toChannelsLast(
  from: ArrayLike<number>,
  to: { [index: number]: number },
  channels: number,
  taps: number,
): void {
  const rowLength = channels * taps;
  for (let row = 0; row < from.length; row += rowLength) {
    for (let channel = 0; channel < channels; channel++) {
      for (let tap = 0; tap < taps; tap++) {
        to[row + tap * channels + channel] = from[row + channel * taps + tap]!;
      }
    }
  }
}
