/** What the containers of tensors have in common: how files are read and what no header may say. */
import type { Shape } from "../shape.ts";

/** Where one tensor lies in a file. */
export interface TensorEntry extends StoredTensor {
  /** First byte, counted from the start of the file. */
  readonly byteOffset: number;
  /** Where elements lie, in elements along each axis, of tensors that are not dense. */
  readonly strides?: readonly number[];
}

/** A tensor that a file shall have. */
export type NewTensor = Pick<StoredTensor, "name" | "format" | "shape">;

/** A file before its tensors are written. */
export interface FileLayout {
  /** Bytes that the file begins with. */
  readonly header: Uint8Array<ArrayBuffer>;
  /** Where each tensor begins, in their order. */
  readonly byteOffsets: readonly number[];
  /** Bytes of the file. */
  readonly fileBytes: number;
}

/** More dimensions than any model's tensors have. */
export const MAX_RANK = 8;

/** Longer than any module path. */
const MAX_NAME_LENGTH = 512;

/** What is wrong with a tensor's name, as the end of a sentence; nothing when it can be used, and shown in messages. */
export function nameProblem(name: string): string | undefined {
  if (name.length > MAX_NAME_LENGTH) {
    return `a tensor's name has ${name.length} characters, the limit is ${MAX_NAME_LENGTH}`;
  }
  // deno-lint-ignore no-control-regex
  return /[\x00-\x1f\x7f]/.test(name)
    ? `a tensor's name has control characters: ${JSON.stringify(name)}`
    : undefined;
}

/** Two tensors that share bytes, the earlier one first; no format allows any. */
export function findOverlap(
  tensors: Iterable<TensorEntry>,
): [TensorEntry, TensorEntry] | undefined {
  const inOrder = [...tensors]
    .filter(({ byteLength }) => byteLength > 0)
    .sort((a, b) => a.byteOffset - b.byteOffset);
  const second = inOrder.findIndex((entry, i) => {
    const before = inOrder[i - 1];
    return before !== undefined && before.byteOffset + before.byteLength > entry.byteOffset;
  });
  return second === -1 ? undefined : [inOrder[second - 1]!, inOrder[second]!];
}

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
  /** Multiplies every element; 1 by default. */
  readonly scale?: number;
  /** The format in the file, where it is decoded to `format` while it is read. */
  readonly storedAs?: string;
  /** Bytes in the file, with those of scales that belong to blocks, where it is decoded while it is read. */
  readonly storedBytes?: number;
}

/** Bytes of a tensor in its file. */
export function storedBytes(tensor: StoredTensor): number {
  return tensor.storedBytes ?? tensor.byteLength;
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
