/** Quantised weights to test and to time with. */
import { decodeF8 } from "../quantization/f8_e4m3.ts";
import type { WeightFormat } from "../quantization/block_format.ts";
import { BLOCK_FORMATS, blockBytes, checkBlocks, dequantize } from "../quantization/formats.ts";
import type { Shape } from "../shape.ts";
import type { CaseInput } from "./conformance.ts";
import { lazyArray, randomIntegers, randomNormal } from "./ndarray.ts";

/** Rounds values to the nearest that blocks of 32 with one scale hold; the scale is that of the largest value. */
function quantizeSimple(values: Float64Array, format: "q8_0" | "q4_0"): Uint8Array {
  const { blockElements, blockBytes } = BLOCK_FORMATS[format];
  const bytes = new Uint8Array(values.length / blockElements * blockBytes);
  for (let i = 0; i < values.length / blockElements; i++) {
    const block = new DataView(bytes.buffer, i * blockBytes, blockBytes);
    const part = values.subarray(i * blockElements, (i + 1) * blockElements);
    const largest = part.reduce((max, value) => Math.abs(value) > Math.abs(max) ? value : max, 0);
    block.setFloat16(0, format === "q8_0" ? Math.abs(largest) / 127 : largest / -8, true);
    const d = block.getFloat16(0, true) || 1;
    const q = (j: number, low: number, high: number) =>
      Math.min(high, Math.max(low, Math.round(part[j]! / d)));
    for (let j = 0; j < blockBytes - 2; j++) {
      if (format === "q8_0") block.setInt8(2 + j, q(j, -128, 127));
      else block.setUint8(2 + j, (q(j, -8, 7) + 8) | ((q(j + 16, -8, 7) + 8) << 4));
    }
  }
  return bytes;
}

const F8_CODES = Array.from({ length: 0x7f }, (_, code) => decodeF8(code));

/** Rounds values to the nearest that f8 holds. */
function quantizeF8(values: Float64Array): Uint8Array {
  return Uint8Array.from(values, (value) => {
    const size = Math.abs(value);
    const above = F8_CODES.findIndex((code) => code >= size);
    const code = above === -1
      ? F8_CODES.length - 1
      : above > 0 && size - F8_CODES[above - 1]! < F8_CODES[above]! - size
      ? above - 1
      : above;
    return code | (value < 0 ? 0x80 : 0);
  });
}

/** Random quants and scales; d is chosen so that values are about `magnitude`, also below the normal f16 numbers. */
function randomBlocks(
  shape: Shape,
  format: "q5_0" | "q4_k" | "q5_k" | "q6_k",
  seed: number,
  magnitude: number,
): Uint8Array {
  const bytes = Uint8Array.from(randomIntegers([blockBytes(shape, format)], seed, 256).data);
  const stride = BLOCK_FORMATS[format].blockBytes;
  const variation = randomNormal([bytes.length / stride], seed + 1, 0.3).data;
  variation.forEach((exponent, i) => {
    const block = new DataView(bytes.buffer, i * stride, stride);
    const size = magnitude * 2 ** exponent;
    if (format === "q5_0") return block.setFloat16(0, size / 9, true);
    if (format === "q6_k") return block.setFloat16(208, size / (74 * 18), true);
    const d = size / (format === "q4_k" ? 300 : 600);
    block.setFloat16(0, d, true);
    block.setFloat16(2, d * (format === "q4_k" ? 7.5 : 15.5), true);
  });
  return bytes;
}

/** Blocks of a weight whose elements are about `magnitude` large, as a file holds them. */
export function sampleBlocks(
  shape: Shape,
  format: WeightFormat,
  seed: number,
  magnitude: number,
): Uint8Array {
  switch (format) {
    case "q8_0":
    case "q4_0":
      return quantizeSimple(randomNormal(shape, seed, magnitude).data, format);
    case "f8_e4m3":
      return quantizeF8(randomNormal(shape, seed, magnitude).data);
    default:
      return randomBlocks(shape, format, seed, magnitude);
  }
}

/** The same as input of a case; its values are what the blocks decode to. */
export function sampleWeight(
  shape: Shape,
  format: WeightFormat,
  seed: number,
  magnitude: number,
  scale = 1,
): CaseInput {
  checkBlocks("sample", shape, format);
  let made: Uint8Array | undefined;
  const blocks = {
    scale,
    get bytes() {
      return made ??= sampleBlocks(shape, format, seed, magnitude);
    },
  };
  const values = () => Float64Array.from(dequantize(blocks.bytes, format, scale));
  return { values: lazyArray(shape, values), dtype: format, blocks };
}
