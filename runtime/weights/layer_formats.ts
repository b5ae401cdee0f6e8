/**
 * ComfyUI's formats of layers that are decoded while they are read: nvfp4, mxfp8 and int8. A layer has its numbers in
 * `weight`, scales in `weight_scale` (and `weight_scale_2`), and its format in `comfy_quant` or in the header.
 */
import { BLOCK_FORMATS } from "../quantization/formats.ts";
import { elementCount, formatShape, type Shape } from "../shape.ts";
import type { StoredTensor } from "./container.ts";
import type { LayerFormat } from "./quantization_config.ts";
import {
  gridDecoder,
  gridOf,
  type RangeDecoder,
  readScales,
  type ScaleReader,
} from "./range_decoder.ts";

/** Endings of the tensors that a decoded layer consists of. */
export const LAYER_SCALES = /^\.weight_scale(?:_2)?$/;

/** Numbers of four bits: sign, two bits of exponent, one of mantissa. */
const E2M1 = Float64Array.of(0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6);
const E4M3 = BLOCK_FORMATS.f8_e4m3.byteValues!;
/** Powers of two, by bytes. */
const E8M0 = Float64Array.from(
  { length: 256 },
  (_, byte) => byte === 255 ? NaN : 2 ** (byte - 127),
);

const NVFP4_BLOCK = 16;
const MXFP8_BLOCK = 32;

/** What f16 holds with at least the precision of these formats, as magnitudes of a tensor's largest number. */
const F16_RANGE = [2 ** -8, 65504] as const;

/** A weight as it is found when its layer's format is known. */
export interface DecodedWeight {
  readonly format: string;
  readonly shape: Shape;
  readonly byteLength: number;
  readonly storedAs: string;
  readonly storedBytes: number;
  readonly decoder: RangeDecoder;
}

/** How the weight of a layer is read. Throws `SyntaxError` where its tensors are not those of its format. */
export function decodedWeight<Entry extends StoredTensor>(
  weight: Entry,
  entries: ReadonlyMap<string, Entry>,
  { format, rotation }: LayerFormat,
  reader: ScaleReader<Entry>,
): DecodedWeight {
  const companion = (ending: string) => {
    const name = weight.name + ending;
    const entry = entries.get(name);
    if (entry) return entry;
    throw new SyntaxError(
      `Cannot read "${reader.path}": "${weight.name}" is stored as ${format} and "${name}" is missing; ` +
        "the download may be incomplete, fetch it again",
    );
  };
  const scale = companion("_scale");
  const refuse = (): never => {
    throw new SyntaxError(
      `Cannot read "${reader.path}": "${weight.name}" ${
        formatShape(weight.shape)
      } of ${weight.format} with "${scale.name}" ${
        formatShape(scale.shape)
      } of ${scale.format} is no weight in ${format} as ComfyUI writes it; ` +
        "take the model in fp8, in bf16, or as GGUF",
    );
  };
  const [rows = 0, storedColumns = 0] = weight.shape;
  const isMatrix = weight.shape.length === 2 && elementCount(weight.shape) > 0;
  const result = (
    type: "F32" | "F16" | "BF16",
    shape: Shape,
    decoder: RangeDecoder,
    storedAs: string,
  ) => ({
    format: type,
    shape,
    byteLength: elementCount(shape) * (type === "F32" ? 4 : 2),
    storedAs,
    storedBytes: weight.byteLength + scale.byteLength,
    decoder,
  });
  if (format === "int8") {
    const scales = readScales(scale, reader);
    const grid = scales && gridOf(weight.shape, scale.shape, scales);
    const isWhole = rotation === undefined || isMatrix && storedColumns % rotation === 0;
    if (weight.format !== "I8" || !scales || !grid || !isWhole) return refuse();
    const largest = 127 * scales.reduce((most, value) => Math.max(most, value), 0);
    const integers = gridDecoder(
      weight.shape,
      grid,
      (bytes) => new Float32Array(new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length)),
    );
    return rotation === undefined
      ? result(typeOf(largest), weight.shape, integers, "INT8")
      : result(
        typeOf(largest * Math.sqrt(rotation)),
        weight.shape,
        rotatedBack(integers, rotation),
        "INT8 (ConvRot)",
      );
  }
  const isPacked = format === "nvfp4";
  const columns = isPacked ? 2 * storedColumns : storedColumns;
  const block = isPacked ? NVFP4_BLOCK : MXFP8_BLOCK;
  const isRight = isMatrix && columns % block === 0 &&
    elementCount(scale.shape) ===
      Math.ceil(rows / 128) * 128 * Math.ceil(columns / block / 4) * 4 &&
    (isPacked
      ? weight.format === "U8" && /^(?:F8_E4M3|U8)$/.test(scale.format)
      : weight.format === "F8_E4M3" && /^(?:F8_E8M0|U8)$/.test(scale.format));
  if (!isRight) return refuse();
  const shape = [rows, columns];
  const readBlockScales = () => reader.read(scale);
  if (!isPacked) {
    // Four bits times a power of two: bf16 holds all of them.
    return result(
      "BF16",
      shape,
      blockDecoder(columns, block, readBlockScales, E8M0, decodeBytes),
      "MXFP8",
    );
  }
  const [whole] = readScales(companion("_scale_2"), reader) ?? refuse();
  const scaleValues = E4M3.map((value) => value * whole!);
  // 6 and 448 are the largest of either type.
  return result(
    typeOf(6 * 448 * whole!),
    shape,
    blockDecoder(columns, block, readBlockScales, scaleValues, decodeNibbles),
    "NVFP4",
  );
}

function typeOf(largest: number): "F16" | "F32" {
  return largest >= F16_RANGE[0] && largest <= F16_RANGE[1] ? "F16" : "F32";
}

/** Writes the numbers of a block, times its scale, at `at`. */
type DecodeBlock = (
  stored: Uint8Array,
  start: number,
  end: number,
  scale: number,
  values: Float32Array,
  at: number,
) => void;

/** The element that comes first is in the upper four bits. */
const decodeNibbles: DecodeBlock = (stored, start, end, scale, values, at) => {
  for (let i = start; i < end; i++) {
    const byte = stored[i]!;
    values[at++] = E2M1[byte >> 4]! * scale;
    values[at++] = E2M1[byte & 15]! * scale;
  }
};

const decodeBytes: DecodeBlock = (stored, start, end, scale, values, at) => {
  for (let i = start; i < end; i++) values[at++] = E4M3[stored[i]!]! * scale;
};

function blockDecoder(
  columns: number,
  blockElements: number,
  readBlockScales: () => Uint8Array,
  scaleValues: Float64Array,
  decodeBlock: DecodeBlock,
): RangeDecoder {
  const blocksPerRow = columns / blockElements;
  const unitBytes = decodeBlock === decodeNibbles ? blockElements / 2 : blockElements;
  return {
    unitElements: blockElements,
    unitBytes,
    decode(stored, first) {
      const scales = readBlockScales();
      const firstBlock = first / blockElements;
      const count = stored.length / unitBytes;
      const values = new Float32Array(count * blockElements);
      for (let i = 0; i < count; i++) {
        const row = Math.floor((firstBlock + i) / blocksPerRow);
        const column = firstBlock + i - row * blocksPerRow;
        const scale = scaleValues[scales[tiledIndex(row, column, blocksPerRow)]!]!;
        decodeBlock(stored, i * unitBytes, (i + 1) * unitBytes, scale, values, i * blockElements);
      }
      return values;
    },
  };
}

/**
 * Where cuBLAS has the scale of a block: tiles of 128 rows and 4 columns lie row by row, and in each the rows 32 apart lie
 * side by side.
 */
export function tiledIndex(row: number, column: number, columns: number): number {
  const tile = (row >> 7) * Math.ceil(columns / 4) + (column >> 2);
  return 512 * tile + 16 * (row & 31) + 4 * ((row >> 5) & 3) + (column & 3);
}

/** Numbers whose rows were multiplied, by groups of columns, with a Hadamard matrix that is its own inverse. */
function rotatedBack(inner: RangeDecoder, group: number): RangeDecoder {
  return {
    unitElements: group,
    unitBytes: group,
    decode(stored, first) {
      const values = inner.decode(stored, first);
      for (let start = 0; start < values.length; start += group) rotate(values, start, group);
      return values;
    },
  };
}

/** The Kronecker power of a matrix of 4 × 4 whose row i is ones but for a -1 in column 3 - i, over two. */
function rotate(values: { [index: number]: number }, start: number, group: number): void {
  for (let step = 1; step < group; step *= 4) {
    for (let base = start; base < start + group; base += 4 * step) {
      for (let i = base; i < base + step; i++) {
        const a = values[i]!;
        const b = values[i + step]!;
        const c = values[i + 2 * step]!;
        const d = values[i + 3 * step]!;
        const half = (a + b + c + d) / 2;
        values[i] = half - d;
        values[i + step] = half - c;
        values[i + 2 * step] = half - b;
        values[i + 3 * step] = half - a;
      }
    }
  }
}
