/** What the containers of tensors have in common: how files are read and what no header may say. */
import type { StoredTensor } from "./tensor_source.ts";

/** Where one tensor lies in a file. */
export interface TensorEntry extends StoredTensor {
  /** First byte, counted from the start of the file. */
  readonly byteOffset: number;
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

/** Fills `target` from byte `position` of the file; reads in the calling thread. */
export function readFully(file: Deno.FsFile, position: number, target: Uint8Array): void {
  file.seekSync(position, Deno.SeekMode.Start);
  for (let done = 0; done < target.byteLength;) {
    const count = file.readSync(target.subarray(done));
    if (count === null) {
      throw new SyntaxError(
        `the file ends after ${done} of ${target.byteLength} bytes at ${position}`,
      );
    }
    done += count;
  }
}
