/** The files of a tab: a table of paths. Threads that may wait read in place; others read what lies in memory. */
import type { FileSource } from "../platform/types.ts";

/** Where a file's bytes are: in memory, in a file that was picked, or in the tab's own file system. */
export type Stored =
  | { readonly kind: "memory"; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "blob"; readonly blob: Blob }
  | { readonly kind: "opfs"; readonly handle: SyncAccessHandle };

/** `FileSystemSyncAccessHandle`, which workers alone have. */
export interface SyncAccessHandle {
  getSize(): number;
  read(target: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  flush(): void;
  close(): void;
}

const table = new Map<string, Stored>();

/** Puts a file into the table, in place of one that has the path already. */
export function mount(path: string, file: Stored): void {
  table.set(path, file);
}

export function find(path: string): Stored | undefined {
  return table.get(path);
}

export function sizeOf(file: Stored): number {
  if (file.kind === "memory") return file.bytes.byteLength;
  return file.kind === "blob" ? file.blob.size : file.handle.getSize();
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
  if (file.kind === "memory") return file.bytes;
  if (file.kind === "blob") return new Uint8Array(await file.blob.arrayBuffer());
  const bytes = new Uint8Array(sizeOf(file));
  sourceOf(file).read(0, bytes);
  return bytes;
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
    if (file.kind === "memory") return target.set(file.bytes.subarray(position, end));
    if (file.kind === "blob") return target.set(readBlob(file.blob.slice(position, end)));
    for (let done = 0; done < target.byteLength;) {
      const count = file.handle.read(target.subarray(done), { at: position + done });
      if (!(count > 0)) throw new SyntaxError(`the browser's storage gave ${count} bytes`);
      done += count;
    }
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
