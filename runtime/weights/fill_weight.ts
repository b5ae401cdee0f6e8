/** Brings a declared weight from its source into device memory, piece by piece. */
import type { DeviceTensor } from "../device/device_tensor.ts";
import { bytesPerElement, decodeFloats, type DType, encodeElements } from "../dtype.ts";
import type { WeightFormat } from "../quantization/block_format.ts";
import { blockBytes, isWeightFormat } from "../quantization/formats.ts";
import { elementCount, type Shape } from "../shape.ts";
import { rewriteElements, type TensorRewrite } from "./adaptation.ts";
import { decoderOf, elementTypeOf, toChannelsLast, type WeightLayout } from "./storage.ts";
import type { TensorSource } from "./container.ts";

const CHUNK_BYTES = 8 * 1024 * 1024;

/** A stored tensor under the shape that the model gives it. */
export interface StoredPart {
  /** Full name of the weight. */
  readonly name: string;
  /** Shape that the model expects. */
  readonly shape: Shape;
}

/** Two buffers for any number of weights, so that filling them leaves no garbage behind. */
export class Staging {
  #stored = new Uint8Array(0);
  #reordered = new Uint8Array(0);

  /** Room for bytes as the file has them. */
  stored(byteLength: number): Uint8Array<ArrayBuffer> {
    if (this.#stored.byteLength < byteLength) this.#stored = new Uint8Array(byteLength);
    return this.#stored.subarray(0, byteLength);
  }

  /** Room for the same in another order. */
  reordered(byteLength: number): Uint8Array<ArrayBuffer> {
    if (this.#reordered.byteLength < byteLength) this.#reordered = new Uint8Array(byteLength);
    return this.#reordered.subarray(0, byteLength);
  }
}

/** How a weight is made from what its source holds. */
interface FilledFrom {
  readonly source: TensorSource;
  /** Rewritten tensors by name; what is stored in blocks on the device is never altered. */
  readonly rewrites: ReadonlyMap<string, TensorRewrite>;
  readonly staging: Staging;
}

/** Writes all parts of a weight into a tensor of the dtype that `storageOf()` says of each, or of a float type. */
export function fillWeight(
  from: FilledFrom,
  tensor: DeviceTensor,
  parts: readonly StoredPart[],
  layout: WeightLayout,
): void {
  let place = 0;
  for (const part of parts) {
    place += isWeightFormat(tensor.dtype)
      ? fillRows(from, tensor, tensor.dtype, part, place)
      : fillElements(from, tensor, tensor.dtype, part, place, layout);
  }
}

/** Rows of blocks from row `firstRow` on; returns their number. */
function fillRows(
  { source, staging }: FilledFrom,
  tensor: DeviceTensor,
  format: WeightFormat,
  { name, shape }: StoredPart,
  firstRow: number,
): number {
  const { scale } = source.find(name)!;
  const rows = shape[0]!;
  const rowBytes = blockBytes(shape.slice(-1), format);
  const step = tensor.rowStep;
  const room = (byteLength: number) => staging.reordered(byteLength);
  const chunkRows = Math.max(step, Math.floor(CHUNK_BYTES / rowBytes / step) * step);
  for (let row = 0; row < rows; row += chunkRows) {
    const chunk = staging.stored(Math.min(chunkRows, rows - row) * rowBytes);
    source.read(name, row * rowBytes, chunk);
    tensor.writeRows(chunk, firstRow + row, scale, room);
  }
  return rows;
}

/** Elements from byte `place` on; returns their bytes. */
function fillElements(
  { source, rewrites, staging }: FilledFrom,
  tensor: DeviceTensor,
  dtype: DType,
  { name, shape }: StoredPart,
  place: number,
  layout: WeightLayout,
): number {
  const { format, scale } = source.find(name)!;
  const rewrite = rewrites.get(name);
  const blocks = decoderOf(format);
  const storedType = elementTypeOf(format)!;
  const elementBytes = bytesPerElement(dtype);
  const { blockElements, blockBytes } = blocks ??
    { blockElements: 1, blockBytes: bytesPerElement(storedType) };
  const count = elementCount(shape);
  const rowLength = count / shape[0]!;
  // An even number of 16-bit elements, so that every write starts on a word.
  const unit = layout !== "channels-last" && !rewrite
    ? 2 * blockElements
    : rowLength % blockElements === 0
    ? 2 * rowLength
    : 2 * rowLength * blockElements;
  const most = Math.max(unit, Math.floor(CHUNK_BYTES / elementBytes / unit) * unit);
  for (let start = 0; start < count; start += most) {
    const length = Math.min(most, count - start);
    const stored = staging.stored(length / blockElements * blockBytes);
    source.read(name, start / blockElements * blockBytes, stored);
    let elements = stored;
    if (blocks || storedType !== dtype || rewrite) {
      const values = blocks ? blocks.decode(stored, scale) : decodeFloats(stored, storedType);
      elements = rewrite
        ? rewriteElements(rewrite, name, values, start, rowLength, dtype)
        : encodeElements(values, dtype);
    }
    if (layout === "channels-last") {
      const reordered = staging.reordered(elements.byteLength);
      const ElementArray = elementBytes === 2 ? Uint16Array : Uint32Array;
      const view = ({ buffer, byteOffset }: Uint8Array<ArrayBuffer>) =>
        new ElementArray(buffer, byteOffset, elements.byteLength / elementBytes);
      toChannelsLast(view(elements), view(reordered), shape[1]!, elementCount(shape.slice(2)));
      tensor.writeBytes(reordered, place + start * elementBytes);
    } else tensor.writeBytes(elements, place + start * elementBytes);
  }
  return count * elementBytes;
}

/** Reads rows by index; no other part of the matrix is read. Gives [rows, columns]. */
export function readRows(
  source: TensorSource,
  name: string,
  columns: number,
  rows: ArrayLike<number>,
): Float32Array<ArrayBuffer> {
  const { format, scale = 1 } = source.find(name)!;
  const blocks = decoderOf(format);
  const dtype = elementTypeOf(format);
  if (!blocks && !dtype) {
    throw new TypeError(`Cannot read rows of tensor "${name}": it is stored as ${format}`);
  }
  const bytes = new Uint8Array(
    blocks ? columns / blocks.blockElements * blocks.blockBytes : columns * bytesPerElement(dtype!),
  );
  const result = new Float32Array(rows.length * columns);
  for (let i = 0; i < rows.length; i++) {
    source.read(name, rows[i]! * bytes.byteLength, bytes);
    result.set(
      blocks ? blocks.decode(bytes, scale) : decodeFloats(bytes, dtype!),
      i * columns,
    );
  }
  return result;
}

const SCAN_BYTES = 1024 * 1024;

/** Bits of the exponent by storage format; all of them set is NaN or infinity. */
const EXPONENTS: Readonly<Record<string, number>> = { F32: 0x7f800000, F16: 0x7c00, BF16: 0x7f80 };

/** The first tensor that holds NaN or infinity, or nothing. */
export function findNonFinite(
  source: TensorSource,
  names: Iterable<string>,
): string | undefined {
  const chunk = new Uint8Array(SCAN_BYTES);
  for (const name of names) {
    const entry = source.find(name);
    const isNonFinite = entry && detectorOf(entry.format);
    if (!isNonFinite) continue;
    const { blockBytes } = decoderOf(entry.format) ?? { blockBytes: 1 };
    const step = Math.floor(SCAN_BYTES / blockBytes) * blockBytes;
    for (let start = 0; start < entry.byteLength; start += step) {
      const part = chunk.subarray(0, Math.min(step, entry.byteLength - start));
      source.read(name, start, part);
      if (isNonFinite(part)) return name;
    }
  }
  return undefined;
}

/** Looks at a part of a tensor that begins where its buffer does. */
function detectorOf(format: string): ((part: Uint8Array<ArrayBuffer>) => boolean) | undefined {
  const blocks = decoderOf(format);
  if (blocks) return (part) => blocks.decode(part).some((value) => !Number.isFinite(value));
  const exponent = EXPONENTS[format];
  if (exponent === undefined) return undefined;
  return (part) => {
    const words = format === "F32"
      ? new Uint32Array(part.buffer, 0, part.byteLength / 4)
      : new Uint16Array(part.buffer, 0, part.byteLength / 2);
    return words.some((word) => (word & exponent) === exponent);
  };
}
