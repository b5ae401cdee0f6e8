/** The files of a tab: a table of paths. Threads that may wait read in place; others read what lies in memory. */
import type { FileSource } from "../platform/types.ts";

/** A file's bytes: in memory, or a blob, as files are that the user picked or that the tab's own file system keeps. */
export type Stored =
  | { readonly kind: "memory"; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "blob"; readonly blob: Blob };

const table = new Map<string, Stored>();

/** Folder of what is soon removed. */
export const TEMPORARY = "/temporary/";

/** Puts a file into the table; an earlier file of the same path is replaced. */
export function mount(path: string, file: Stored): void {
  table.set(path, file);
}

export function unmount(path: string): void {
  table.delete(path);
}

export function find(path: string): Stored | undefined {
  return table.get(path);
}

export function sizeOf(file: Stored): number {
  return file.kind === "memory" ? file.bytes.byteLength : file.blob.size;
}

/** Names in a folder; undefined where nothing lies below the path. */
export function namesIn(folder: string): string[] | undefined {
  const start = folder.replace(/\/*$/, "/");
  const names = new Set<string>();
  for (const path of table.keys()) {
    if (path.startsWith(start)) names.add(path.slice(start.length).split("/")[0]!);
  }
  return names.size > 0 ? [...names] : undefined;
}

export async function bytesOf(file: Stored): Promise<Uint8Array<ArrayBuffer>> {
  return file.kind === "memory" ? file.bytes : new Uint8Array(await file.blob.arrayBuffer());
}

/** Reads a file by ranges; a blob only in a worker. */
export function sourceOf(file: Stored): FileSource {
  const size = sizeOf(file);
  const read = (position: number, target: Uint8Array): void => {
    const end = position + target.byteLength;
    if (end > size) {
      const rest = Math.max(0, size - position);
      throw new SyntaxError(
        `the file ends after ${rest} of ${target.byteLength} bytes at ${position}`,
      );
    }
    target.set(
      file.kind === "memory"
        ? file.bytes.subarray(position, end)
        : readBlob(file.blob.slice(position, end)),
    );
  };
  const close = () => {};
  return {
    size,
    isFolder: false,
    read,
    readLater: async (position, target) => {
      if (file.kind !== "blob") return read(position, target);
      const part = file.blob.slice(position, position + target.byteLength);
      target.set(new Uint8Array(await part.arrayBuffer()));
    },
    close,
    [Symbol.dispose]: close,
  };
}

/** Blobs can be read without waiting for other events in workers alone. */
function readBlob(part: Blob): Uint8Array {
  const Reader =
    (globalThis as { FileReaderSync?: new () => { readAsArrayBuffer(b: Blob): ArrayBuffer } })
      .FileReaderSync;
  if (!Reader) throw new Error("Cannot read a picked file here: only workers may wait for it");
  return new Uint8Array(new Reader().readAsArrayBuffer(part));
}
