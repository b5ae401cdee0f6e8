/**
 * Tensors of a folder with their bytes, for files that tests write under other names.
 *
 * @module
 */
import { Checkpoint, type StoredTensor } from "../runtime/mod.ts";

/** A tensor with its bytes. */
export type Bytes = Pick<StoredTensor, "format" | "shape"> & { readonly bytes: Uint8Array };

/** The tensors of a folder by name. */
export function tensorsOf(folder: string): Map<string, Bytes> {
  using checkpoint = Checkpoint.open(folder);
  return new Map([...checkpoint.names].map((name) => {
    const { format, shape, byteLength } = checkpoint.find(name)!;
    const bytes = new Uint8Array(byteLength);
    checkpoint.read(name, 0, bytes);
    return [name, { format, shape, bytes }];
  }));
}
