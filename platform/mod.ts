/**
 * What the program needs of the runtime under it; this is Deno's. In a browser tab `browser/platform.ts` stands in its
 * place, with the same names.
 */
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { patiently } from "./links.ts";
import { VM_STAT, withCachedFiles } from "./mac_memory.ts";
import { exists } from "./stat.ts";
import type { FileInfo, FileSource, GpuName, HostMemory } from "./types.ts";

export { exists, fileStamp, isFile } from "./stat.ts";
export { basename, dirname, extname, join, resolve } from "node:path";
export { fileURLToPath } from "node:url";
export { constants as zlibConstants, crc32, deflateSync, inflateSync } from "node:zlib";
export { holdLifeline, Lifeline, type LifelineMessage } from "./lifeline.ts";
export type { FileInfo, FileSource, HostMemory } from "./types.ts";

/** The operating system, such as `linux`, `windows`, `darwin`. */
export const OS: string = Deno.build.os;
/** The processor: `x86_64` or `aarch64`. */
export const ARCH: string = Deno.build.arch;
/** The runtime and its version, such as `deno 2.9.6`. */
export const RUNTIME = `deno ${Deno.version.deno}`;

/** The name of the runtime's own WebGPU. Waits of `deno` block their thread until the GPU has finished. */
export const OWN_GPU: GpuName = "deno";
/** Where the program lies, with the bundled model in `models/bundled/`. */
export const PROGRAM_FOLDER: URL = new URL("../", import.meta.url);

/** What a request does where its answer leads elsewhere: a browser shows no such answers. */
export const REDIRECTS: "manual" | "follow" = "manual";
/** Whether waits end late unless the queue is asked again and again. */
export const WAITS_NEED_NUDGE: boolean = false;

/** A variable of the process; an empty one counts as unset. */
export function env(name: string): string | undefined {
  return Deno.env.get(name) || undefined;
}

export function setEnv(name: string, value: string | undefined): void {
  if (value === undefined) Deno.env.delete(name);
  else Deno.env.set(name, value);
}

export function hostMemory(): HostMemory {
  const memory = Deno.systemMemoryInfo();
  return OS === "darwin" ? withCachedFiles(memory, vmStat()) : memory;
}

function vmStat(): string {
  const { state } = Deno.permissions.querySync({ name: "run", command: VM_STAT });
  if (state !== "granted") return "";
  try {
    return new TextDecoder().decode(new Deno.Command(VM_STAT).outputSync().stdout);
  } catch {
    return "";
  }
}

/** Memory that threads share. */
export function sharedBytes(byteLength: number): ArrayBufferLike {
  return new SharedArrayBuffer(byteLength);
}

/** Runs while Mesa is told of any folder: it prints two lines where a service or container has no desktop session. */
export async function withoutWaylandNoise<Result>(request: () => Promise<Result>): Promise<Result> {
  const name = "XDG_RUNTIME_DIR";
  const permission = Deno.permissions.querySync({ name: "env", variable: name });
  if (OS !== "linux" || permission.state !== "granted" || Deno.env.has(name)) {
    return await request();
  }
  Deno.env.set(name, "/nonexistent");
  try {
    return await request();
  } finally {
    Deno.env.delete(name);
  }
}

/** A timer that alone does not keep the process. */
export function unrefTimer(timer: ReturnType<typeof setTimeout>): void {
  Deno.unrefTimer(timer as unknown as number);
}

/** A file or folder is not there. */
export const NotFoundError: new (message: string, options?: ErrorOptions) => Error =
  Deno.errors.NotFound;

/** Whether the file system said that something is not there. */
export function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotADirectory || isNotFound(error);
}

/** A name that Windows cannot have is an error without a class. */
function isNotFound(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    (error as { code?: unknown } | null)?.code === "ENOENT";
}

/** Why the file system refused, in words that follow a colon, such as `it does not exist`. */
export function describeFileError(error: unknown): string {
  if (isNotFound(error)) return "it does not exist";
  if (error instanceof Deno.errors.NotADirectory) return "a part of its path is not a folder";
  if (error instanceof Deno.errors.PermissionDenied) return "this user may not read it";
  if (error instanceof Deno.errors.NotCapable) return "Deno was not given leave to read it";
  if (error instanceof Deno.errors.FilesystemLoop) return "its symbolic links lead in a circle";
  return error instanceof Error ? error.message : String(error);
}

/** Opens a file for reading by ranges. @throws {NotFoundError} where there is none */
export function openFile(path: string): FileSource {
  const file = Deno.openSync(path, { read: true });
  const endsEarly = (done: number, { byteLength }: Uint8Array, position: number): never => {
    throw new SyntaxError(`the file ends after ${done} of ${byteLength} bytes at ${position}`);
  };
  return {
    // A file may grow or shrink while it is open.
    get size() {
      return file.statSync().size;
    },
    get isFolder() {
      return file.statSync().isDirectory;
    },
    read(position, target) {
      file.seekSync(position, Deno.SeekMode.Start);
      for (let done = 0; done < target.byteLength;) {
        done += file.readSync(target.subarray(done)) ?? endsEarly(done, target, position);
      }
    },
    async readLater(position, target) {
      await file.seek(position, Deno.SeekMode.Start);
      for (let done = 0; done < target.byteLength;) {
        done += await file.read(target.subarray(done)) ?? endsEarly(done, target, position);
      }
    },
    close: () => file.close(),
    [Symbol.dispose]: () => file.close(),
  };
}

/** As {@linkcode openFile}, for threads that must not stop. */
export function openFileLater(path: string): Promise<FileSource> {
  return Promise.try(openFile, path);
}

export async function fileInfo(path: string | URL): Promise<FileInfo> {
  return await Deno.stat(path);
}

export function fileInfoSync(path: string | URL): FileInfo {
  return Deno.statSync(path);
}

export function isFileSync(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

export async function readFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
  return await Deno.readFile(path);
}

export function readFileSync(path: string): Uint8Array<ArrayBuffer> {
  return Deno.readFileSync(path);
}

export async function readText(path: string): Promise<string> {
  return await Deno.readTextFile(path);
}

/** The text of a file of the system, or nothing where it cannot be read. */
export function readSystemText(path: string): string | undefined {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return undefined;
  }
}

/** Names in a folder. */
export async function listFolder(path: string): Promise<string[]> {
  return await Array.fromAsync(Deno.readDir(path), ({ name }) => name);
}

export function listFolderSync(path: string | URL): string[] {
  return [...Deno.readDirSync(path)].map(({ name }) => name);
}

/** Writes a file at one stroke, with the folders above it. */
export async function writeText(path: string, text: string): Promise<void> {
  const fresh = `${path}.${crypto.randomUUID()}`;
  await makeFolder(dirname(path));
  try {
    await Deno.writeTextFile(fresh, text);
    await patiently(() => Deno.rename(fresh, path));
  } catch (error) {
    await removeFile(fresh);
    throw error;
  }
}

/** Writes a file, with the folders above it; half a new file is removed. */
export async function writeFile(path: string, bytes: Uint8Array, mode?: number): Promise<void> {
  const isNew = !await exists(path);
  await makeFolder(dirname(path));
  try {
    await Deno.writeFile(path, bytes, mode === undefined ? {} : { mode });
  } catch (error) {
    if (isNew) await removeFile(path);
    throw error;
  }
}

/** Makes a folder and those above it, where they are not there. */
export async function makeFolder(path: string): Promise<void> {
  await Deno.mkdir(path, { recursive: true });
}

/** A path for a file that is soon removed, where there is none yet. */
export function temporaryPath(ending: string): string {
  return join(tmpdir(), `denoise-${crypto.randomUUID()}${ending}`);
}

/** Removes a file, if it is there and can be removed. */
export async function removeFile(path: string): Promise<void> {
  await Deno.remove(path).catch(() => {});
}

/** The file that runs where everything is packed into one; nothing elsewhere. */
export function packedProgram(): string | undefined {
  return Deno.build.standalone ? Deno.execPath() : undefined;
}
