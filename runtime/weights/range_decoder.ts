/** Weights that are decoded while ranges of them are read. */
import { bytesPerElement, decodeElements, encodeElements } from "../dtype.ts";
import { elementCount, type Shape } from "../shape.ts";
import type { StoredTensor } from "./container.ts";
import { elementTypeOf } from "./storage.ts";

/** Makes numbers of what a file holds, from any unit of elements on. */
export interface RangeDecoder {
  readonly unitElements: number;
  readonly unitBytes: number;
  /** Decodes whole units, of which the first begins with element `first`. */
  decode(stored: Uint8Array, first: number): Float32Array | Float64Array;
}

/** Reads tensors of scales. */
export interface ScaleReader<Entry> {
  /** The file or folder, for messages. */
  readonly path: string;
  read(entry: Entry): Uint8Array;
}

/** The numbers of scales; nothing where their type is not read. */
export function readScales<Entry extends StoredTensor>(
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

/** Numbers that are decoded one by one, each times the scale of its block. */
export function gridDecoder(
  shape: Shape,
  { scales, blocksPerRow, blockRows, blockColumns }: ScaleGrid,
  decodeNumbers: (stored: Uint8Array) => Float32Array | Float64Array,
): RangeDecoder {
  const columns = elementCount(shape) / (shape[0] ?? 1);
  return {
    unitElements: 1,
    unitBytes: 1,
    decode(stored, first) {
      const values = decodeNumbers(stored);
      for (let i = 0; i < values.length;) {
        const row = Math.floor((first + i) / columns);
        const column = (first + i) % columns;
        const block = Math.floor(column / blockColumns);
        const scale = scales[Math.floor(row / blockRows) * blocksPerRow + block]!;
        const left = Math.min(columns, (block + 1) * blockColumns) - column;
        for (const end = Math.min(values.length, i + left); i < end; i++) values[i]! *= scale;
      }
      return values;
    },
  };
}

/** Reads a decoded tensor from a byte on; `readStored` reads bytes of the file from a byte of the tensor in it on. */
export function readDecoded(
  format: string,
  { unitElements, unitBytes, decode }: RangeDecoder,
  start: number,
  target: Uint8Array,
  readStored: (start: number, bytes: Uint8Array) => void,
): void {
  const dtype = elementTypeOf(format)!;
  const readUnit = unitElements * bytesPerElement(dtype);
  const first = Math.floor(start / readUnit);
  const stored = new Uint8Array(
    (Math.ceil((start + target.byteLength) / readUnit) - first) * unitBytes,
  );
  readStored(first * unitBytes, stored);
  const bytes = encodeElements(decode(stored, first * unitElements), dtype);
  const skipped = start - first * readUnit;
  target.set(bytes.subarray(skipped, skipped + target.byteLength));
}
