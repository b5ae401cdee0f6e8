/** Files of models in the tab's own file system: fetched once, continued where a download stopped, checked when complete. */
import { sha256 } from "@noble/hashes/sha2.js";

/** A file to be fetched. */
export interface RemoteFile {
  /** Its address. */
  readonly url: string;
  /** Bytes, where they are known. */
  readonly size?: number | undefined;
  /** In hexadecimal digits, where it is known. */
  readonly sha256?: string | undefined;
}

/** Whether files are kept for the next visit. */
export type CacheMode = "opfs" | "none";

interface StoreOptions {
  readonly cache: CacheMode;
  /** Called with the number of bytes of each piece, and of what is kept already. */
  readonly onBytes: (count: number) => void;
}

const FOLDER = "denoise";
/** Bytes that are hashed at a time. */
const PIECE_BYTES = 4 * 2 ** 20;
/** What a server says of a range that begins behind the end. */
const NO_SUCH_RANGE = 416;
/** Attempts at a download, each of which goes on where the one before ended. */
const ATTEMPTS = 4;

/** `FileSystemSyncAccessHandle`, which workers alone have. */
interface SyncAccessHandle {
  getSize(): number;
  read(target: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  flush(): void;
  close(): void;
}

type WritableFile = FileSystemFileHandle & {
  createSyncAccessHandle(): Promise<SyncAccessHandle>;
};

/** Gives a file's bytes; call it in a worker. Several tabs wait for each other. @throws {Error} that names the address */
export async function obtain(file: RemoteFile, options: StoreOptions): Promise<Blob> {
  const folder = options.cache === "opfs" ? await ownFolder() : undefined;
  if (!folder) return await fetchWhole(file, options);
  const key = await keyOf(file);
  return await navigator.locks.request(`denoise ${key}`, async () => {
    const isComplete = await has(folder, `${key}.complete`);
    const handle = await folder.getFileHandle(key, { create: true }) as WritableFile;
    if (!isComplete) {
      const access = await handle.createSyncAccessHandle();
      try {
        await download(file, access, options);
        check(file, access);
      } catch (error) {
        if (error instanceof DamagedError) access.truncate(0);
        throw error;
      } finally {
        access.close();
      }
      await folder.getFileHandle(`${key}.complete`, { create: true });
    }
    const blob = await handle.getFile();
    if (isComplete) options.onBytes(blob.size);
    return blob;
  });
}

/** Bytes of a file that are there already. */
export async function storedBytes(file: RemoteFile): Promise<number> {
  const folder = await ownFolder();
  if (!folder) return 0;
  const handle = await folder.getFileHandle(await keyOf(file)).catch(() => undefined);
  return handle ? (await handle.getFile()).size : 0;
}

/** The folder of models; nothing where the browser keeps no files for this page. */
async function ownFolder(): Promise<FileSystemDirectoryHandle | undefined> {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(FOLDER, { create: true });
  } catch {
    return undefined;
  }
}

async function has(folder: FileSystemDirectoryHandle, name: string): Promise<boolean> {
  return await folder.getFileHandle(name).then(() => true, () => false);
}

/** The same bytes have the same name, wherever they come from. */
async function keyOf({ url, sha256 }: RemoteFile): Promise<string> {
  if (sha256 !== undefined) return sha256;
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url));
  return `url-${new Uint8Array(hash).toHex().slice(0, 40)}`;
}

/** The file is complete and is not what it should be. */
class DamagedError extends Error {}

async function download(
  file: RemoteFile,
  access: SyncAccessHandle,
  { onBytes }: StoreOptions,
): Promise<void> {
  let have = access.getSize();
  if (have > 0) onBytes(have);
  for (let attempt = 1; have !== file.size || file.size === undefined; attempt++) {
    try {
      // The browser's own cache would keep a second copy, and ask for parts again.
      let answer = await ask(file, have, "no-store");
      if (have > 0 && startOf(answer) !== have) {
        onBytes(-have);
        access.truncate(have = 0);
        if (answer.status !== 200) {
          await answer.body?.cancel();
          answer = await ask(file, 0, "no-store");
        }
      }
      for await (const part of answer.body as ReadableStream<Uint8Array>) {
        const count = write(access, part, have);
        if (count !== part.byteLength) throw new FullError(file);
        have += count;
        onBytes(count);
      }
      access.flush();
      const total = totalOf(answer, file);
      if (total === undefined || have >= total) return;
      throw new Error(`Cannot fetch ${file.url}: it ended after ${have} of ${total} bytes`);
    } catch (error) {
      access.flush();
      if (error instanceof RefusedError || error instanceof FullError || attempt === ATTEMPTS) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** (attempt - 1)));
    }
  }
}

/** Bytes that were written: some browsers write a part where storage ends, others refuse. */
function write(access: SyncAccessHandle, bytes: Uint8Array, at: number): number {
  try {
    return access.write(bytes, { at });
  } catch (error) {
    if (error instanceof DOMException && error.name === "QuotaExceededError") return 0;
    throw error;
  }
}

class RefusedError extends Error {}

class FullError extends Error {
  constructor({ url }: RemoteFile) {
    super(
      `Cannot keep ${url}: the browser gives this page no more storage; free some disk, leave a private window, ` +
        "or pick the file, which is read where it lies",
    );
  }
}

async function ask(
  { url }: RemoteFile,
  start: number,
  cache: RequestCache = "default",
): Promise<Response> {
  const headers = start > 0 ? { range: `bytes=${start}-` } : undefined;
  const answer = await fetch(url, { cache, ...(headers && { headers }) });
  if (answer.ok || (start > 0 && answer.status === NO_SUCH_RANGE)) return answer;
  await answer.body?.cancel();
  throw new RefusedError(`Cannot fetch ${url}: its server says ${answer.status}`);
}

/** The first byte of an answer. */
function startOf({ headers, status }: Response): number | undefined {
  if (status !== 206) return status === 200 ? 0 : undefined;
  const start = /^bytes (\d+)-/.exec(headers.get("content-range") ?? "")?.[1];
  return start === undefined ? undefined : Number(start);
}

/** Bytes of the whole file, as an answer tells them. */
function totalOf({ headers, status }: Response, { size }: RemoteFile): number | undefined {
  const range = /\/(\d+)$/.exec(headers.get("content-range") ?? "")?.[1];
  if (size !== undefined) return size;
  const length = status === 206 ? range : headers.get("content-length") ?? undefined;
  return headers.has("content-encoding") || length === undefined ? undefined : Number(length);
}

function check(file: RemoteFile, access: SyncAccessHandle): void {
  const size = access.getSize();
  if (file.size !== undefined && size !== file.size) {
    throw new DamagedError(
      `Cannot use ${file.url}: it has ${size} bytes, and ${file.size} were announced; load the page again`,
    );
  }
  if (file.sha256 === undefined) return;
  const hash = sha256.create();
  const piece = new Uint8Array(PIECE_BYTES);
  for (let at = 0; at < size;) {
    const count = access.read(piece, { at });
    hash.update(piece.subarray(0, count));
    at += count;
  }
  checkHash(file, hash.digest());
}

function checkHash({ url, sha256: announced }: RemoteFile, digest: Uint8Array): void {
  const found = digest.toHex();
  if (found === announced) return;
  throw new DamagedError(
    `Cannot use ${url}: its SHA-256 is ${found}, and ${announced} was announced; load the page again`,
  );
}

async function fetchWhole(file: RemoteFile, { onBytes }: StoreOptions): Promise<Blob> {
  const blob = await (await ask(file, 0)).blob();
  if (file.size !== undefined && blob.size !== file.size) {
    throw new Error(`Cannot use ${file.url}: it has ${blob.size} bytes, not ${file.size}`);
  }
  if (file.sha256 !== undefined) {
    const hash = sha256.create();
    for await (const part of blob.stream() as ReadableStream<Uint8Array>) hash.update(part);
    checkHash(file, hash.digest());
  }
  onBytes(blob.size);
  return blob;
}
