/** What a browser tab gives the program, by the names of `platform/mod.ts`; see there. */
import { Unzlib, zlibSync } from "fflate";
import type { FileInfo, FileSource, GpuName, HostMemory } from "../platform/types.ts";
import { bytesOf, find, mount, namesIn, sizeOf, sourceOf, TEMPORARY, unmount } from "./files.ts";

export { basename, dirname, extname, join, resolve } from "./path.ts";
export type { FileInfo, FileSource, HostMemory } from "../platform/types.ts";

const { userAgent, deviceMemory } = navigator as Navigator & {
  readonly deviceMemory?: number;
};

const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/Android/, "android"],
  [/iPhone|iPad/, "ios"],
  [/Windows/, "windows"],
  [/Mac OS X/, "darwin"],
];

export const OS: string = SYSTEMS.find(([sign]) => sign.test(userAgent))?.[1] ?? "linux";
/** Browsers do not tell. */
export const ARCH: string = "unknown";

const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/Firefox\/(\d+)/, "firefox"],
  [/Edg\/(\d+)/, "edge"],
  [/Chrome\/(\d+)/, "chrome"],
  [/Version\/(\d+(?:\.\d+)?).* Safari/, "safari"],
];

export const RUNTIME: string = BROWSERS
  .flatMap(([sign, name]) => {
    const version = sign.exec(userAgent)?.[1];
    return version === undefined ? [] : `${name} ${version}`;
  })[0] ?? "browser";

export const OWN_GPU: GpuName = "browser";
/** The root of the tab's table of files. */
export const PROGRAM_FOLDER: URL = new URL("file:///");
export const REDIRECTS: "manual" | "follow" = "follow";
export const WAITS_NEED_NUDGE: boolean = RUNTIME.startsWith("firefox");

/** Nothing is kept between visits but what the library keeps itself. */
export function env(name: string): string | undefined {
  return name === "DENOISE_CACHE" ? "off" : undefined;
}

export function setEnv(): void {}

/** Chrome rounds what the machine has, to at most 8 GiB; the others say nothing, and get that. */
export function hostMemory(): HostMemory {
  const total = (deviceMemory ?? 8) * 2 ** 30;
  return { total, available: total / 2, free: total / 2 };
}

/** Memory that threads share, where the page is isolated; memory of this thread elsewhere. */
export function sharedBytes(byteLength: number): ArrayBufferLike {
  return (globalThis as { readonly crossOriginIsolated?: boolean }).crossOriginIsolated
    ? new SharedArrayBuffer(byteLength)
    : new ArrayBuffer(byteLength);
}

export function withoutWaylandNoise<Result>(request: () => Promise<Result>): Promise<Result> {
  return request();
}

export function unrefTimer(): void {}

export class NotFoundError extends Error {
  override readonly name = "NotFoundError";
  readonly code = "ENOENT";
}

export function isAbsence(error: unknown): boolean {
  return error instanceof NotFoundError;
}

export function describeFileError(error: unknown): string {
  if (error instanceof NotFoundError) return "it does not exist";
  return error instanceof Error ? error.message : String(error);
}

function present(path: string) {
  const file = find(path);
  if (file) return file;
  throw namesIn(path)
    ? Object.assign(new Error("it is a folder"), { code: "EISDIR" })
    : new NotFoundError(`${path} is not there`);
}

export function openFile(path: string): FileSource {
  return sourceOf(present(path));
}

/** A thread that must not wait reads the whole file first: LoRAs alone are read there. */
export async function openFileLater(path: string): Promise<FileSource> {
  const file = present(path);
  return sourceOf(file.kind === "blob" ? { kind: "memory", bytes: await bytesOf(file) } : file);
}

export function fileInfoSync(path: string | URL): FileInfo {
  const file = find(String(path));
  if (file) return { isFile: true, isDirectory: false, size: sizeOf(file), mtime: null };
  if (namesIn(String(path))) return { isFile: false, isDirectory: true, size: 0, mtime: null };
  throw new NotFoundError(`${path} is not there`);
}

export function fileInfo(path: string | URL): Promise<FileInfo> {
  return Promise.try(fileInfoSync, path);
}

export function isFileSync(path: string): boolean {
  return find(path) !== undefined;
}

export function isFile(path: string): Promise<boolean> {
  return Promise.resolve(isFileSync(path));
}

export function exists(path: string): Promise<boolean> {
  return Promise.resolve(isFileSync(path) || namesIn(path) !== undefined);
}

export function fileStamp(path: string): Promise<string | undefined> {
  const file = find(path);
  return Promise.resolve(file && String(sizeOf(file)));
}

export function readFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
  return Promise.try(() => bytesOf(present(path)));
}

export function readFileSync(path: string): Uint8Array<ArrayBuffer> {
  const source = openFile(path);
  const bytes = new Uint8Array(source.size);
  source.read(0, bytes);
  return bytes;
}

export async function readText(path: string): Promise<string> {
  return new TextDecoder().decode(await readFile(path));
}

export function readSystemText(): undefined {}

export function listFolderSync(path: string | URL): string[] {
  const names = namesIn(String(path));
  if (names) return names;
  throw new NotFoundError(`${path} is not there`);
}

export function listFolder(path: string): Promise<string[]> {
  return Promise.try(listFolderSync, path);
}

export function writeFile(): Promise<never> {
  return Promise.reject(
    new Error("a browser tab has no file system; use toBlob(), and let the user save it"),
  );
}

export function writeText(path: string, text: string): Promise<void> {
  mount(path, { kind: "memory", bytes: new TextEncoder().encode(text) });
  return Promise.resolve();
}

export function makeFolder(): Promise<void> {
  return Promise.resolve();
}

export function temporaryPath(ending: string): string {
  return `${TEMPORARY}${crypto.randomUUID()}${ending}`;
}

export function removeFile(path: string): Promise<void> {
  unmount(path);
  return Promise.resolve();
}

export function packedProgram(): undefined {}

export function fileURLToPath(url: string | URL): string {
  return decodeURIComponent(new URL(url).pathname);
}

/** Workers of a tab end at once, and take their GPU with them. */
export class Lifeline {
  ended(): Promise<boolean> {
    return Promise.resolve(true);
  }
}

export interface LifelineMessage {
  readonly type: "lifeline";
}

export function holdLifeline(): void {}

export const zlibConstants = { Z_RLE: 3 };

export function deflateSync(bytes: Uint8Array, { level }: { level: number }): Uint8Array {
  return zlibSync(bytes, { level: level as 1 });
}

/** @throws an error with the code `ERR_BUFFER_TOO_LARGE`, as Node's, beyond `maxOutputLength` bytes */
export function inflateSync(
  bytes: Uint8Array,
  { maxOutputLength }: { maxOutputLength: number },
): Uint8Array {
  const parts: Uint8Array[] = [];
  let length = 0;
  let isComplete = false;
  const inflate = new Unzlib((part, isLast) => {
    length += part.length;
    if (length > maxOutputLength) {
      const error = new RangeError(`more than ${maxOutputLength} bytes come out`);
      throw Object.assign(error, { code: "ERR_BUFFER_TOO_LARGE" });
    }
    parts.push(part.slice());
    isComplete = isLast;
  });
  // In pieces, so that a small file cannot become all of the memory before its length is seen.
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    inflate.push(bytes.subarray(at, at + PIECE_BYTES), at + PIECE_BYTES >= bytes.length);
  }
  if (!isComplete) throw new SyntaxError("the compressed data ends early");
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

const PIECE_BYTES = 16 * 1024;

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

export function crc32(bytes: Uint8Array): number {
  let crc = ~0;
  for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 255]! ^ (crc >>> 8);
  return ~crc >>> 0;
}
