/** Where tensors come from: names, shapes and ranges of bytes, whatever the container. */
import { elementCount, type Shape } from "../shape.ts";

/** A tensor as its container has it. */
export interface StoredTensor {
  /** Name by which the tensor is found. */
  readonly name: string;
  /** How its elements are stored, in the spelling of the containers: `F32`, `BF16`, `F8_E4M3`, `Q4_K`, … */
  readonly format: string;
  /** Row-major, outermost first. */
  readonly shape: Shape;
  /** What shape and format ask for. */
  readonly byteLength: number;
  /** Multiplies every element; 1 when left out. */
  readonly scale?: number;
  /** The format in the file, of one byte for each element, where it is decoded to `format` while it is read. */
  readonly storedAs?: string;
}

/** Bytes of a tensor in its file. */
export function storedBytes({ storedAs, shape, byteLength }: StoredTensor): number {
  return storedAs === undefined ? byteLength : elementCount(shape);
}

/** Tensors that can be read by ranges. */
export interface TensorSource {
  /** The file or folder, for messages. */
  readonly path: string;
  /** Names of all tensors. */
  readonly names: Iterable<string>;
  /** What is known of a tensor without reading it, or nothing. */
  find(name: string): StoredTensor | undefined;
  /**
   * Reads `target.byteLength` bytes of a tensor's data, from its byte `start` on.
   *
   * @throws {RangeError} when the tensor has no such bytes
   * @throws {SyntaxError} when the file is no longer as long as it was
   */
  read(name: string, start: number, target: Uint8Array): void;
}
