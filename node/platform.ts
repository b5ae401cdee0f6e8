/** What Node and Bun give the program, by the names of `platform/mod.ts`; see there. */
import { execFileSync } from "node:child_process";
import {
  closeSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync as readSync,
  readSync as readPart,
  statSync,
} from "node:fs";
import { mkdir, readdir, readFile as read, rename, rm, writeFile as write } from "node:fs/promises";
import { freemem, tmpdir, totalmem } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { patiently } from "../platform/links.ts";
import { VM_STAT, withCachedFiles } from "../platform/mac_memory.ts";
import { exists } from "../platform/stat.ts";
import type { FileInfo, FileSource, GpuName, HostMemory } from "../platform/types.ts";

export { exists, fileStamp, isFile } from "../platform/stat.ts";
export { basename, dirname, extname, join, resolve } from "node:path";
export { fileURLToPath } from "node:url";
export { constants as zlibConstants, crc32, deflateSync, inflateSync } from "node:zlib";
export { holdLifeline, Lifeline, type LifelineMessage } from "../platform/lifeline.ts";
export type { FileInfo, FileSource, HostMemory } from "../platform/types.ts";

const SYSTEMS: Readonly<Record<string, string>> = { win32: "windows" };
const PROCESSORS: Readonly<Record<string, string>> = { x64: "x86_64", arm64: "aarch64" };

export const OS: string = SYSTEMS[process.platform] ?? process.platform;
export const ARCH: string = PROCESSORS[process.arch] ?? process.arch;

const { bun, node } = process.versions as { bun?: string; node: string };

export const RUNTIME: string = bun === undefined ? `node ${node}` : `bun ${bun}`;

/** Neither has a WebGPU of its own. */
export const OWN_GPU: GpuName = "dawn";
export const REDIRECTS: "manual" | "follow" = "manual";
export const WAITS_NEED_NUDGE: boolean = false;
export const PROGRAM_FOLDER: URL = new URL("../", import.meta.url);

export function env(name: string): string | undefined {
  return process.env[name] || undefined;
}

export function setEnv(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}

export function hostMemory(): HostMemory {
  const memory = {
    total: totalmem(),
    available: process.availableMemory?.() ?? freemem(),
    free: freemem(),
  };
  return OS === "darwin" ? withCachedFiles(memory, vmStat()) : memory;
}

function vmStat(): string {
  try {
    return execFileSync(VM_STAT, { encoding: "utf8" });
  } catch {
    return "";
  }
}

export function sharedBytes(byteLength: number): ArrayBufferLike {
  return new SharedArrayBuffer(byteLength);
}

export function withoutWaylandNoise<Result>(request: () => Promise<Result>): Promise<Result> {
  return request();
}

export function unrefTimer(timer: ReturnType<typeof setTimeout>): void {
  (timer as unknown as { unref(): void }).unref();
}

export class NotFoundError extends Error {
  override readonly name = "NotFoundError";
  readonly code = "ENOENT";
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown } | null)?.code);
}

export function isAbsence(error: unknown): boolean {
  return ["ENOENT", "ENOTDIR"].includes(codeOf(error));
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "it does not exist",
  ENOTDIR: "a part of its path is not a folder",
  EACCES: "this user may not read it",
  EPERM: "this user may not read it",
  ELOOP: "its symbolic links lead in a circle",
};

export function describeFileError(error: unknown): string {
  return REASONS[codeOf(error)] ?? (error instanceof Error ? error.message : String(error));
}

/** Runs what asks the file system; the absence of a file becomes {@linkcode NotFoundError}. */
export function withAbsence<Result>(ask: () => Result): Result {
  try {
    return ask();
  } catch (error) {
    throw absence(error);
  }
}

export async function withAbsenceLater<Result>(asked: Promise<Result>): Promise<Result> {
  return await asked.catch((error) => {
    throw absence(error);
  });
}

function absence(cause: unknown): unknown {
  return codeOf(cause) === "ENOENT" && !(cause instanceof NotFoundError)
    ? new NotFoundError((cause as Error).message, { cause })
    : cause;
}

/** Node reads less than 2 GiB at once. */
const MAX_READ_BYTES = 2 ** 30;

export function openFile(path: string): FileSource {
  const file = withAbsence(() => openSync(path, "r"));
  const readInto = (position: number, target: Uint8Array) => {
    for (let done = 0; done < target.byteLength;) {
      const left = Math.min(MAX_READ_BYTES, target.byteLength - done);
      const count = readPart(file, target, done, left, position + done);
      if (count === 0) {
        throw new SyntaxError(
          `the file ends after ${done} of ${target.byteLength} bytes at ${position}`,
        );
      }
      done += count;
    }
  };
  const close = () => closeSync(file);
  return {
    get size() {
      return fstatSync(file).size;
    },
    get isFolder() {
      return fstatSync(file).isDirectory();
    },
    read: readInto,
    readLater: (position, target) => Promise.try(readInto, position, target),
    close,
    [Symbol.dispose]: close,
  };
}

export function openFileLater(path: string): Promise<FileSource> {
  return Promise.try(openFile, path);
}

export function fileInfoSync(path: string | URL): FileInfo {
  const info = withAbsence(() => statSync(path));
  const { size, mtime } = info;
  return { isFile: info.isFile(), isDirectory: info.isDirectory(), size, mtime };
}

export function fileInfo(path: string | URL): Promise<FileInfo> {
  return Promise.try(fileInfoSync, path);
}

export function isFileSync(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

export async function readFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await withAbsenceLater(read(path)));
}

export function readFileSync(path: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(withAbsence(() => readSync(path)));
}

export async function readText(path: string): Promise<string> {
  return await withAbsenceLater(read(path, "utf8"));
}

export function readSystemText(path: string): string | undefined {
  try {
    return readSync(path, "utf8");
  } catch {
    return undefined;
  }
}

export async function listFolder(path: string): Promise<string[]> {
  return await withAbsenceLater(readdir(path));
}

export function listFolderSync(path: string | URL): string[] {
  return withAbsence(() => readdirSync(path));
}

export async function writeText(path: string, text: string): Promise<void> {
  const fresh = `${path}.${crypto.randomUUID()}`;
  await makeFolder(dirname(path));
  try {
    await write(fresh, text);
    await patiently(() => rename(fresh, path));
  } catch (error) {
    await removeFile(fresh);
    throw error;
  }
}

export async function writeFile(path: string, bytes: Uint8Array): Promise<void> {
  const isNew = !await exists(path);
  await makeFolder(dirname(path));
  try {
    await write(path, bytes);
  } catch (error) {
    if (isNew) await removeFile(path);
    throw error;
  }
}

export async function makeFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true });
}

export function temporaryPath(ending: string): string {
  return join(tmpdir(), `denoise-${crypto.randomUUID()}${ending}`);
}

export async function removeFile(path: string): Promise<void> {
  await rm(path).catch(() => {});
}

export function packedProgram(): undefined {}
