/** The numbers of LoRA files as typed arrays. */
import { decodeFloats, elementCount, type StoredElements } from "../../runtime/mod.ts";
import type { LoraTensor } from "./types.ts";

/** A tensor's elements in f32, exactly. */
export function floatElements({ bytes, dtype }: LoraTensor): Float32Array<ArrayBuffer> {
  return decodeFloats(bytes, dtype);
}

/**
 * A tensor's elements in a type that holds them; a view where the bytes lie right.
 *
 * @param dtype its own, or f32
 */
export function elementsAs(dtype: LoraTensor["dtype"], tensor: LoraTensor): StoredElements {
  if (tensor.dtype !== dtype) return floatElements(tensor);
  const size = dtype === "f32" ? 4 : 2;
  const bytes = tensor.bytes.byteOffset % size === 0 ? tensor.bytes : tensor.bytes.slice();
  const length = bytes.byteLength / size;
  return dtype === "f32"
    ? new Float32Array(bytes.buffer, bytes.byteOffset, length)
    : new Uint16Array(bytes.buffer, bytes.byteOffset, length);
}

/** A tensor seen as a matrix: its first size, and all others together. */
export function matrixShape({ shape }: LoraTensor): [rows: number, columns: number] {
  const rows = shape[0] ?? 1;
  return [rows, elementCount(shape) / rows];
}
