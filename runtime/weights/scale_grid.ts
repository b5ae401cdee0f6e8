/** Scales that fp8 weights have by rows or by blocks; such weights are read as bf16. */
import { encodeElements } from "../dtype.ts";
import { dequantize } from "../quantization/formats.ts";
import { elementCount, type Shape } from "../shape.ts";
import { blockFormatOf } from "./storage.ts";

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

/**
 * How scales lie over a weight.
 *
 * @param shape of the weight; what follows the first size are the columns
 * @param scaleShape one scale for each row, or rows and columns of blocks
 * @param blockSize rows and columns of a block, where the file says it
 * @returns nothing where they do not cover the weight
 */
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

/**
 * Reads a range of such a weight as bf16.
 *
 * @param weight its shape, and its format in the file, of one byte for each number
 * @param start first byte of the range, counted in bf16
 * @param readStored reads bytes of the file from a byte of the weight on
 */
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
