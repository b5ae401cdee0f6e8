/** Quantised weights to test and to time with. */
import type { DeviceTensor } from "../device/device_tensor.ts";
import { encodeElements } from "../dtype.ts";
import type { WeightFormat } from "../quantization/block_format.ts";
import {
  BLOCK_FORMATS,
  blockBytes,
  checkBlocks,
  dequantize,
  isWeightFormat,
} from "../quantization/formats.ts";
import { elementCount, type Shape } from "../shape.ts";
import type { CaseInput } from "../conformance.ts";
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

/** Rounds values to the nearest that f8 holds. */
function quantizeF8(values: Float64Array, format: "f8_e4m3" | "f8_e5m2"): Uint8Array {
  const codes = BLOCK_FORMATS[format].byteValues!.subarray(0, 128).filter(Number.isFinite);
  return Uint8Array.from(values, (value) => {
    const size = Math.abs(value);
    const above = codes.findIndex((code) => code >= size);
    const code = above === -1
      ? codes.length - 1
      : above > 0 && size - codes[above - 1]! < codes[above]! - size
      ? above - 1
      : above;
    return code | (value < 0 ? 0x80 : 0);
  });
}

/** Formats whose samples are random blocks. */
type RandomFormat = Exclude<WeightFormat, "q8_0" | "q4_0" | "f8_e4m3" | "f8_e5m2">;

/** Writes the factors of a random block whose elements shall be about `size`. */
const FACTORS: Readonly<Record<RandomFormat, (block: DataView, size: number) => void>> = {
  q5_1: (block, size) => factorAndOffset(block, 0, size / 9, -15.5),
  q5_0: (block, size) => block.setFloat16(0, size / 9, true),
  q4_1: (block, size) => factorAndOffset(block, 0, size / 4.6, -7.5),
  q6_k: (block, size) => block.setFloat16(208, size / (74 * 18), true),
  q5_k: (block, size) => factorAndOffset(block, 0, size / 600, 15.5),
  q4_k: (block, size) => factorAndOffset(block, 0, size / 300, 7.5),
  q3_k: (block, size) => block.setFloat16(108, size / 43, true),
  q2_k: (block, size) => factorAndOffset(block, 80, size / 14, 1.5),
  iq4_nl: (block, size) => block.setFloat16(0, size / 69, true),
  iq4_xs: (block, size) => block.setFloat16(0, size / (69 * 18), true),
  mxfp4: (block, size) => block.setUint8(0, Math.round(Math.log2(size / 6)) + 128),
};

function factorAndOffset(block: DataView, at: number, factor: number, middle: number): void {
  block.setFloat16(at, factor, true);
  block.setFloat16(at + 2, factor * middle, true);
}

/** Random quants and scales; d is chosen so that values are about `magnitude`, also below the normal f16 numbers. */
function randomBlocks(
  shape: Shape,
  format: RandomFormat,
  seed: number,
  magnitude: number,
): Uint8Array {
  const bytes = Uint8Array.from(randomIntegers([blockBytes(shape, format)], seed, 256).data);
  const stride = BLOCK_FORMATS[format].blockBytes;
  const variation = randomNormal([bytes.length / stride], seed + 1, 0.3).data;
  variation.forEach((exponent, i) => {
    FACTORS[format](new DataView(bytes.buffer, i * stride, stride), magnitude * 2 ** exponent);
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
    case "f8_e5m2":
      return quantizeF8(randomNormal(shape, seed, magnitude).data, format);
    default:
      return randomBlocks(shape, format, seed, magnitude);
  }
}

/** A sample as input of a case; its values are what the blocks decode to. */
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

/** Rows of a quantised weight, and elements of others, that are made; the rest repeats them. */
const SAMPLED_ROWS = 64;
const MADE_ELEMENTS = 2 ** 18;

/** Writes random numbers of a standard deviation into an allocated tensor, the same for each seed. */
export function fillRandom(tensor: DeviceTensor, deviation: number, seed = 0): void {
  const { dtype, shape, byteLength } = tensor;
  if (isWeightFormat(dtype)) {
    const sample = sampleBlocks([SAMPLED_ROWS, shape.at(-1)!], dtype, seed, deviation);
    const blocks = new Uint8Array(blockBytes(shape, dtype));
    for (let at = 0; at < blocks.length; at += sample.length) {
      blocks.set(sample.subarray(0, blocks.length - at), at);
    }
    return tensor.writeRows(blocks);
  }
  let state = 0x9e3779b9 ^ (seed << 8);
  const count = elementCount(shape);
  const values = Float32Array.from({ length: Math.min(count, MADE_ELEMENTS) }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    // Uniform from -√3 to √3 has a deviation of 1.
    return state / 2 ** 31 * Math.sqrt(3) * deviation;
  });
  if (count <= MADE_ELEMENTS) return tensor.write(values);
  const made = encodeElements(values, dtype);
  for (let at = 0; at < byteLength; at += made.byteLength) {
    tensor.writeBytes(made.subarray(0, byteLength - at), at);
  }
}
