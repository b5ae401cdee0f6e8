/** The files of a tab: a table of paths. Threads that may wait read in place; others read what lies in memory. */
import type { FileSource } from "../platform/types.ts";

/** A file's bytes: in memory, or a blob, as files are that the user picked or that the tab's own file system keeps. */
export type Stored =
  | { readonly kind: "memory"; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "blob"; readonly blob: Blob }
  | RemoteSource;

/** A file that is not here: parts of it are fetched as they are read, and kept nowhere. */
export interface RemoteSource {
  readonly kind: "remote";
  readonly url: string;
  /** Bytes. */
  readonly size: number;
}

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
  if (file.kind === "remote") return file.size;
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
  if (file.kind === "remote") return readRemote(file, 0, file.size);
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
        : file.kind === "blob"
        ? readBlob(file.blob.slice(position, end))
        : ahead(file, position, end),
    );
  };
  let [start, part] = [0, new Uint8Array(0)];
  /** Headers are read piece by piece: a request for each would take long. */
  const ahead = (remote: RemoteSource, position: number, end: number): Uint8Array => {
    if (position < start || end > start + part.length) {
      part = readRemote(remote, position, Math.min(size, Math.max(end, position + AHEAD_BYTES)));
      start = position;
    }
    return part.subarray(position - start, end - start);
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

/** Bytes that are fetched at once of a file that is not here. */
const AHEAD_BYTES = 2 ** 20;

/** The part of `XMLHttpRequest` that is used here. */
interface WaitingRequest {
  responseType: "arraybuffer";
  readonly status: number;
  readonly response: ArrayBuffer | null;
  open(method: string, url: string, isLater: boolean): void;
  setRequestHeader(name: string, value: string): void;
  send(): void;
}

/** Fetches a part of a file while the thread waits, which only workers may. */
function readRemote({ url }: RemoteSource, from: number, end: number): Uint8Array<ArrayBuffer> {
  const { XMLHttpRequest: Request } = globalThis as unknown as {
    readonly XMLHttpRequest: new () => WaitingRequest;
  };
  const request = new Request();
  request.open("GET", url, false);
  request.responseType = "arraybuffer";
  request.setRequestHeader("range", `bytes=${from}-${end - 1}`);
  request.send();
  const bytes = new Uint8Array(request.response ?? []);
  if (request.status === 206 && bytes.length === end - from) return bytes;
  if (request.status === 200 && bytes.length >= end) return bytes.slice(from, end);
  throw new Error(
    `Cannot read ${url}: its server answers ${request.status} with ${bytes.length} bytes where ${
      end - from
    } were asked for`,
  );
}

/** Blobs can be read without waiting for other events in workers alone. */
function readBlob(part: Blob): Uint8Array {
  const Reader =
    (globalThis as { FileReaderSync?: new () => { readAsArrayBuffer(b: Blob): ArrayBuffer } })
      .FileReaderSync;
  if (!Reader) throw new Error("Cannot read a picked file here: only workers may wait for it");
  return new Uint8Array(new Reader().readAsArrayBuffer(part));
}
