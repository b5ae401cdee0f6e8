/** Brings a declared weight from its source into device memory, piece by piece. */
import { bytesPerElement, decodeFloats, type DType, encodeElements } from "../dtype.ts";
import type { WeightFormat } from "../quantization/block_format.ts";
import { blockBytes, isWeightFormat } from "../quantization/formats.ts";
import type { DeviceTensor } from "../device/device_tensor.ts";
import { elementCount, type Shape } from "../shape.ts";
import { rewriteElements, type TensorRewrite } from "./adaptation.ts";
import { decoderOf, elementTypeOf, type WeightLayout } from "./storage.ts";
import type { TensorSource } from "./tensor_source.ts";

/** Bytes read from disk at a time. */
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

/**
 * Writes all parts of a weight, one after the other.
 *
 * @param tensor that takes writes; its dtype is what `storageOf()` says of every part, or a float type
 * @throws {SyntaxError} when the files are no longer as long as they were
 * @throws {RangeError} when fp8 weights hold NaN, or `tensor` does not hold what is made of an element
 */
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
      toChannelsLast(elements, reordered, shape, elementBytes);
      tensor.writeBytes(reordered, place + start * elementBytes);
    } else tensor.writeBytes(elements, place + start * elementBytes);
  }
  return count * elementBytes;
}

/** `[rows, in, taps]` to `[rows, taps, in]` for the rows in `source`. */
function toChannelsLast(
  source: Uint8Array,
  target: Uint8Array,
  shape: Shape,
  elementBytes: number,
): void {
  const channels = shape[1]!;
  const taps = elementCount(shape.slice(2));
  const ElementArray = elementBytes === 2 ? Uint16Array : Uint32Array;
  const view = (bytes: Uint8Array) =>
    new ElementArray(
      bytes.buffer as ArrayBuffer,
      bytes.byteOffset,
      bytes.byteLength / elementBytes,
    );
  const from = view(source);
  const to = view(target);
  const rowLength = channels * taps;
  for (let row = 0; row < from.length; row += rowLength) {
    for (let channel = 0; channel < channels; channel++) {
      for (let tap = 0; tap < taps; tap++) {
        to[row + tap * channels + channel] = from[row + channel * taps + tap]!;
      }
    }
  }
}
