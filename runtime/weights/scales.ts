/**
 * What quantisers keep beside their weights: scales of fp8 are read, anything else that a weight needs to be understood is
 * refused. ComfyUI has `layer.scale_weight` with a tensor `scaled_fp8` that marks the file, and since the end of 2025
 * `layer.weight_scale` with `layer.comfy_quant`; transformers has `layer.weight_scale_inv`, which multiplies, too.
 */
import { decodeElements, encodeElements } from "../dtype.ts";
import { dequantize } from "../quantization/formats.ts";
import { elementCount, formatShape, type Shape } from "../shape.ts";
import { checkComfyFormat, type Quantization } from "./quantization_config.ts";
import { blockFormatOf, elementTypeOf } from "./storage.ts";
import type { StoredTensor } from "./container.ts";

/** A tensor whose elements have scales by blocks, and are read as bf16 therefore. */
export interface ScaledTensor extends StoredTensor {
  readonly grid?: ScaleGrid;
}

/** Endings of tensors that hold the scale, or the scales, of `weight`. */
const SCALES = /^\.(?:scale_weight|weight_scale|weight_scale_inv)$/;

/** Tensors that say nothing about the numbers in `weight`: ranges of activations, and the mark of a file. */
const SILENT =
  /(?:^|[._])(?:scale_input|(?:input|output)_(?:scale|amax|quantizer\._\w+)|scaled_fp8)$/;

/** Names that quantisers use, as endings. */
const COMPANION =
  /(?:scale_weight|scales?|scales?_(?:inv|ub|\d)|a(?:bs)?max|zero_?points?|zeros|SCB|quant\w{0,20}|codebook\w{0,20})$/i;
/** What layers have beside a weight that is stored in any way. */
const PLAIN = /^\.(?:bias|running_mean|running_var|num_batches_tracked|\d+)$/;
/** Types whose numbers stand for themselves. */
const PLAIN_TYPES = /^(?:F32|F16|BF16|F64|C64|BOOL|[IU](?:16|32|64))$/;

/** Methods that are told by a tensor's name. */
const METHODS: readonly (readonly [sign: RegExp, method: string])[] = [
  [/\.quant_state\.bitsandbytes__(\w{1,20})$/, "bitsandbytes ($1)"],
  [/\.SCB$/, "bitsandbytes (int8)"],
  [/\.wscales$/, "Nunchaku (SVDQuant)"],
  [/\.(?:qweight|qzeros|g_idx)$/, "GPTQ or AWQ"],
  [/\.weight_packed$/, "compressed-tensors (packed)"],
  [/\.W_q$/, "HQQ"],
  [/\.weight\._data$/, "Quanto"],
  [/[._:]qdata$/, "torchao"],
  [/\.encoded_exponent$/, "DFloat11"],
];

interface ScaleReader<Entry> {
  /** The file or folder, for messages. */
  readonly path: string;
  /** What the file says of its quantisation beside tensors. */
  readonly quantization?: Quantization | undefined;
  read(entry: Entry): Uint8Array;
}

/** Gives every fp8 weight its scale or scales, and leaves out the tensors that held them. */
export function applyScales<Entry extends StoredTensor>(
  entries: ReadonlyMap<string, Entry>,
  reader: ScaleReader<Entry>,
): Map<string, Entry & ScaledTensor> {
  const { path, quantization } = reader;
  const result = new Map<string, Entry & ScaledTensor>(entries);
  for (const [name, entry] of entries) {
    const method = METHODS.find(([sign]) => sign.test(name));
    if (method) {
      throw new SyntaxError(
        `Cannot read "${path}": its weights are quantised by ${
          method[0].exec(name)![0].replace(...method)
        }, which is not supported; take the model in bf16, in fp8 or as GGUF`,
      );
    }
    if (name.endsWith(".comfy_quant")) {
      checkComfyFormat(reader.read(entry), `"${path}": "${name}"`);
      result.delete(name);
    } else if (SILENT.test(name)) result.delete(name);
    else {
      const owned = ownerOf(entries, name);
      if (!owned) continue;
      const weight = result.get(owned.weight)!;
      result.set(weight.name, withScale(weight, owned.rest, entry, reader));
      result.delete(name);
    }
  }
  if (quantization) {
    for (const { name, format, shape, scale, grid } of result.values()) {
      if (!format.startsWith("F8_") || shape.length < 2 || scale !== undefined || grid) continue;
      throw new SyntaxError(
        `Cannot read "${path}": tensor "${name}" is stored as ${format} and has no scale, ` +
          "though its quantization_config asks for one; the download may be incomplete, fetch it again",
      );
    }
  }
  return result;
}

/** The weight that a tensor belongs to as a quantiser's companion, and what its name adds; nothing for other tensors. */
function ownerOf(
  entries: ReadonlyMap<string, StoredTensor>,
  name: string,
): { readonly weight: string; readonly rest: string } | undefined {
  const whole = [...name.matchAll(/[.:]/g)].map(({ index }) => index).reverse();
  const lastPart = (whole[0] ?? -1) + 1;
  const words = [...name.slice(lastPart).matchAll(/_/g)].map(({ index }) => lastPart + index);
  for (const at of [...whole, ...words]) {
    const [stem, rest] = [name.slice(0, at), name.slice(at)];
    const weight = entries.get(`${stem}.weight`) ?? entries.get(stem);
    if (!weight || weight.name === name || PLAIN.test(rest)) continue;
    const isDirect = /^\.[^.:]+$/.test(rest);
    const isCompanion = PLAIN_TYPES.test(weight.format)
      ? isDirect && rest.includes("weight") && COMPANION.test(rest)
      : isDirect || COMPANION.test(rest);
    if (isCompanion) return { weight: weight.name, rest };
  }
  return undefined;
}

/** The weight with what its companion says. */
function withScale<Entry extends StoredTensor>(
  weight: Entry & ScaledTensor,
  ending: string,
  companion: Entry,
  reader: ScaleReader<Entry>,
): Entry & ScaledTensor {
  const { name, format, shape } = weight;
  const values = SCALES.test(ending) ? readScales(companion, reader) : undefined;
  const isScaled = weight.scale !== undefined || weight.grid !== undefined;
  const [scale] = values ?? [];
  if (values && !isScaled && format.startsWith("F8_") && blockFormatOf(format)) {
    if (values.length === 1) return { ...weight, scale: scale! };
    const grid = gridOf(shape, companion.shape, values, reader.quantization?.blockSize);
    const byteLength = READ_BYTES * elementCount(shape);
    if (grid) return { ...weight, format: "BF16", byteLength, storedAs: format, grid };
  } else if (values?.length === 1 && scale === 1 && PLAIN_TYPES.test(format)) return weight;
  throw new SyntaxError(
    `Cannot read "${reader.path}": tensor "${name}" ${
      formatShape(shape)
    } is stored as ${format} and comes with "${companion.name}" ${
      formatShape(companion.shape)
    }, stored as ${companion.format}, which this program does not read; ` +
      "fetch the model in fp8 with one scale for each tensor, row or block, in bf16, or as GGUF",
  );
}

/** The numbers of scales; nothing where their type is not read. */
function readScales<Entry extends StoredTensor>(
  entry: Entry,
  { read, path }: ScaleReader<Entry>,
): Float64Array | undefined {
  const dtype = elementTypeOf(entry.format);
  if (dtype === undefined || elementCount(entry.shape) === 0) return undefined;
  const scales = decodeElements(read(entry), dtype);
  // A block of zeros has the scale 0.
  const isScale = (scale: number) => scales.length > 1 ? scale >= 0 : scale > 0;
  const wrong = scales.find((scale) => !(isScale(scale) && scale < Infinity));
  if (wrong === undefined) return scales;
  throw new SyntaxError(
    `Cannot read "${path}": scale "${entry.name}" is ${wrong}; the file is damaged, fetch it again`,
  );
}

/** Scales of the blocks of a matrix; blocks at its end may be smaller. */
export interface ScaleGrid {
  /** Row by row. */
  readonly scales: Float64Array;
  readonly blocksPerRow: number;
  readonly blockRows: number;
  readonly blockColumns: number;
}

/** Rows and columns of a block where a file does not say: those of transformers' fine-grained fp8. */
const BLOCK_SIZE = [128, 128] as const;

/** Bytes of a number as it is read. */
export const READ_BYTES = 2;

/** How scales lie over a weight. */
export function gridOf(
  shape: Shape,
  scaleShape: Shape,
  scales: Float64Array,
  blockSize: readonly [number, number] = BLOCK_SIZE,
): ScaleGrid | undefined {
  const rows = shape[0] ?? 1;
  const columns = elementCount(shape) / rows;
  const [blocksPerColumn = 1, blocksPerRow = 1, ...others] = scaleShape;
  if (others.some((size) => size !== 1)) return undefined;
  const sizes = [blockSize, [rows / blocksPerColumn, columns / blocksPerRow]] as const;
  const fitting = sizes.find(([height, width]) =>
    Number.isInteger(height) && Number.isInteger(width) &&
    Math.ceil(rows / height) === blocksPerColumn && Math.ceil(columns / width) === blocksPerRow
  );
  if (!fitting) return undefined;
  const [blockRows, blockColumns] = fitting;
  return { scales, blocksPerRow, blockRows, blockColumns };
}

/** Reads bf16 from byte `start` of such a weight on; `readStored` reads bytes of the file from a byte of the weight on. */
export function readScaled(
  { shape, storedAs, grid }: {
    readonly shape: Shape;
    readonly storedAs: string;
    readonly grid: ScaleGrid;
  },
  start: number,
  target: Uint8Array,
  readStored: (start: number, bytes: Uint8Array) => void,
): void {
  const first = Math.floor(start / READ_BYTES);
  const stored = new Uint8Array(Math.ceil((start + target.byteLength) / READ_BYTES) - first);
  readStored(first, stored);
  const values = dequantize(stored, blockFormatOf(storedAs)!);
  const columns = elementCount(shape) / (shape[0] ?? 1);
  const { scales, blocksPerRow, blockRows, blockColumns } = grid;
  for (let i = 0; i < values.length;) {
    const row = Math.floor((first + i) / columns);
    const column = (first + i) % columns;
    const block = Math.floor(column / blockColumns);
    const scale = scales[Math.floor(row / blockRows) * blocksPerRow + block]!;
    const end = Math.min(values.length, i + Math.min(columns, (block + 1) * blockColumns) - column);
    for (; i < end; i++) values[i]! *= scale;
  }
  const bytes = encodeElements(values, "bf16");
  const skipped = start - first * READ_BYTES;
  target.set(bytes.subarray(skipped, skipped + target.byteLength));
}
