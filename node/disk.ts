/** What Node and Bun do to disks and with other programs, by the names of `platform/disk.ts`; see there. */
import { spawn } from "node:child_process";
import { constants } from "node:fs";
import { open, readdir, rename, rm, stat } from "node:fs/promises";
import process from "node:process";
import { Readable, Writable } from "node:stream";
import { patiently } from "../platform/links.ts";
import type { FolderEntry } from "../platform/disk.ts";
import type { OutputFile, Program, ProgramOptions } from "../platform/types.ts";
import { withAbsenceLater } from "./platform.ts";

export { leadsTo, linkFile } from "../platform/links.ts";

export type { FolderEntry } from "../platform/disk.ts";
export type { OutputFile, Program, ProgramOptions } from "../platform/types.ts";

export async function listEntries(path: string): Promise<FolderEntry[]> {
  const entries = await withAbsenceLater(readdir(path, { withFileTypes: true }));
  return entries.map((entry) => ({
    name: entry.name,
    isFile: entry.isFile(),
    isDirectory: entry.isDirectory(),
  }));
}

export async function renameFile(from: string, to: string): Promise<void> {
  await withAbsenceLater(patiently(() => rename(from, to)));
}

export function isForbidden(error: unknown): boolean {
  return ["EACCES", "EPERM"].includes(String((error as { code?: unknown } | null)?.code));
}

export async function openOutput(path: string): Promise<OutputFile> {
  const file = await open(path, constants.O_RDWR | constants.O_CREAT);
  return {
    size: async () => (await file.stat()).size,
    async read(position, target) {
      return (await file.read(target, 0, target.byteLength, position)).bytesRead;
    },
    async write(position, bytes) {
      for (let done = 0; done < bytes.byteLength;) {
        const left = bytes.byteLength - done;
        done += (await file.write(bytes, done, left, position + done)).bytesWritten;
      }
    },
    truncate: () => file.truncate(0),
    sync: () => file.sync(),
    [Symbol.dispose]: () => void file.close().catch(() => {}),
  };
}

/** How often it is looked whether a lock is free, and after how long without a sign of life it counts as left behind, in milliseconds. */
const [POLL_MS, STALE_MS] = [200, 10_000];

/**
 * Node has no locks of files: another file beside it stands for one. It keeps out other programs of Node; Deno and
 * Python lock the file itself, and files that both write at once fail their hash and are fetched again.
 */
export async function lockFile(path: string): Promise<AsyncDisposable> {
  const own = `${path}.node`;
  for (;;) {
    try {
      const file = await open(own, "wx");
      // A sign of life that fails is no reason to stop: at worst a file is fetched twice.
      const alive = setInterval(
        () => void file.utimes(new Date(), new Date()).catch(() => {}),
        STALE_MS / 4,
      );
      return {
        async [Symbol.asyncDispose]() {
          clearInterval(alive);
          await file.close();
          await rm(own, { force: true });
        },
      };
    } catch (error) {
      if ((error as { code?: unknown }).code !== "EEXIST") throw error;
    }
    const seen = await stat(own).catch(() => undefined);
    if (seen && Date.now() - seen.mtimeMs > STALE_MS) await rm(own, { force: true });
    else await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

export function startProgram(
  [program, ...args]: readonly string[],
  { folder, environment }: ProgramOptions,
): Program {
  const child = spawn(program!, args, { cwd: folder, env: environment, stdio: "pipe" });
  const { promise: isDone, resolve, reject } = Promise.withResolvers<boolean>();
  child.once("close", (code) => resolve(code === 0));
  child.on("error", reject);
  // A program that does not exist ends before anyone waits for it; who waits is told all the same.
  isDone.catch(() => {});
  return {
    stdin: Writable.toWeb(child.stdin) as WritableStream<Uint8Array>,
    stdout: Readable.toWeb(child.stdout) as Program["stdout"],
    stderr: Readable.toWeb(child.stderr) as Program["stderr"],
    isDone,
    kill: () => void child.kill("SIGKILL"),
  };
}

export function environment(): Record<string, string> {
  return process.env as Record<string, string>;
}

export function workingFolder(): string {
  return process.cwd();
}

/** Programs of denoise are Deno's. */
export function moduleRunner(): undefined {}
