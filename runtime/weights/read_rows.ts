/** Rows of a stored matrix as numbers, for what is looked up on the CPU: embeddings of a few tokens out of many. */
import { bytesPerElement, decodeFloats } from "../dtype.ts";
import { decoderOf, elementTypeOf } from "./storage.ts";
import type { TensorSource } from "./tensor_source.ts";

/**
 * Reads rows by index; no other part of the matrix is read.
 *
 * @returns [rows, columns]
 * @throws {RangeError} when a row is not there
 * @throws {TypeError} when the tensor is stored as something that holds no numbers
 */
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
