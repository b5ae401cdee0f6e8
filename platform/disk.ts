/** What the program does to disks and with other programs, where there are any: never in a browser tab. This is Deno's. */
import { patiently } from "./links.ts";
import type { OutputFile, Program, ProgramOptions } from "./types.ts";

export { leadsTo, linkFile } from "./links.ts";
export type { OutputFile, Program, ProgramOptions } from "./types.ts";

export interface FolderEntry {
  readonly name: string;
  readonly isFile: boolean;
  readonly isDirectory: boolean;
}

export async function listEntries(path: string): Promise<FolderEntry[]> {
  return await Array.fromAsync(Deno.readDir(path));
}

export async function renameFile(from: string, to: string): Promise<void> {
  await patiently(() => Deno.rename(from, to));
}

/** Whether the system forbids it to this user, or the runtime to this program. */
export function isForbidden(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable;
}

/** Opens a file to go on writing it; makes it where there is none. */
export async function openOutput(path: string): Promise<OutputFile> {
  const file = await Deno.open(path, { read: true, write: true, create: true });
  return {
    size: async () => (await file.stat()).size,
    async read(position, target) {
      await file.seek(position, Deno.SeekMode.Start);
      return await file.read(target) ?? 0;
    },
    async write(position, bytes) {
      await file.seek(position, Deno.SeekMode.Start);
      for (let done = 0; done < bytes.byteLength;) done += await file.write(bytes.subarray(done));
    },
    truncate: () => file.truncate(0),
    sync: () => file.sync(),
    [Symbol.dispose]: () => file.close(),
  };
}

/** Waits until no other process holds the lock of this file, and holds it. */
export async function lockFile(path: string): Promise<AsyncDisposable> {
  const file = await Deno.open(path, { create: true, write: true });
  await file.lock(true);
  return {
    async [Symbol.asyncDispose]() {
      await file.unlock();
      file.close();
    },
  };
}

export function startProgram(
  [program, ...args]: readonly string[],
  { folder, environment }: ProgramOptions,
): Program {
  const child = new Deno.Command(program!, {
    args,
    cwd: folder,
    clearEnv: true,
    env: environment,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const { stdin, stdout, stderr } = child;
  const isDone = child.status.then(({ success }) => success);
  return { stdin, stdout, stderr, isDone, kill: () => child.kill("SIGKILL") };
}

/** The variables of this process. */
export function environment(): Record<string, string> {
  return Deno.env.toObject();
}

/** The working folder. @throws {Error} where it was removed */
export function workingFolder(): string {
  return Deno.cwd();
}

/** The program that runs modules beside this one: Deno, or nothing where this is one executable or a bundle. */
export function moduleRunner(): string | undefined {
  if (Deno.build.standalone || !import.meta.url.endsWith(".ts")) return undefined;
  // Deno that was started through another loader is not its own executable.
  return Deno.env.get("DENOISE_DENO") ?? Deno.execPath();
}
