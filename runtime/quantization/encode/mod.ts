/** From numbers to the blocks of quantised weights, bit for bit as ggml writes them. */
import type { WeightFormat } from "../block_format.ts";
import { BLOCK_FORMATS } from "../formats.ts";
import { encodeF8 } from "./fp8.ts";
import { encodeIq4Nl, encodeIq4Xs } from "./iq4.ts";
import { encodeQ2K, encodeQ3K, encodeQ4K, encodeQ5K, encodeQ6K } from "./k_blocks.ts";
import { encodeMxfp4, encodeQ80, type Encoder, offsetEncoder, symmetricEncoder } from "./simple.ts";

const ENCODERS: Readonly<Record<Exclude<WeightFormat, "f8_e4m3" | "f8_e5m2">, Encoder>> = {
  q8_0: encodeQ80,
  q5_1: offsetEncoder(31),
  q5_0: symmetricEncoder(16),
  q4_1: offsetEncoder(15),
  q4_0: symmetricEncoder(8),
  q6_k: encodeQ6K,
  q5_k: encodeQ5K,
  q4_k: encodeQ4K,
  q3_k: encodeQ3K,
  q2_k: encodeQ2K,
  iq4_nl: encodeIq4Nl,
  iq4_xs: encodeIq4Xs,
  mxfp4: encodeMxfp4,
};

/**
 * Encodes numbers as blocks, as `ggml_quantize_chunk` does without an importance matrix and without fused operations.
 *
 * @param values whole blocks of finite numbers
 * @param scale every number is divided by it first; only `f8_*` take one
 * @throws {RangeError} when the values end inside a block
 */
export function quantize(
  values: Float32Array,
  format: WeightFormat,
  scale = 1,
): Uint8Array<ArrayBuffer> {
  if (format === "f8_e4m3" || format === "f8_e5m2") return encodeF8(values, format, scale);
  const { blockElements, blockBytes } = BLOCK_FORMATS[format];
  const count = values.length / blockElements;
  if (!Number.isInteger(count)) {
    throw new RangeError(
      `Cannot encode ${values.length} numbers as ${format}: they end inside a block of ${blockElements}`,
    );
  }
  const encode = ENCODERS[format];
  const bytes = new Uint8Array(count * blockBytes);
  for (let i = 0; i < count; i++) {
    encode(
      values.subarray(i * blockElements, (i + 1) * blockElements),
      new DataView(bytes.buffer, i * blockBytes, blockBytes),
    );
  }
  return bytes;
}
