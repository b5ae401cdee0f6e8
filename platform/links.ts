/** Links and names of files, as Deno, Node and Bun make them alike. */
import { copyFile, link, rm, stat, symlink } from "node:fs/promises";
import { dirname, relative } from "node:path";
import process from "node:process";

/** Lets a path lead to a file of the same disk: a symbolic link, or a hard link where users may make none, as on Windows, else a copy. */
export async function linkFile(file: string, path: string): Promise<void> {
  try {
    await symlink(relative(dirname(path), file), path, "file");
    await stat(path);
  } catch {
    await rm(path, { force: true });
    await link(file, path).catch(() => copyFile(file, path));
  }
}

/** Whether a path leads to a file, or to a copy that was made of it since. */
export async function leadsTo(path: string, file: string): Promise<boolean> {
  const [there, wanted] = await Promise.all(
    [path, file].map((one) => stat(one).catch(() => undefined)),
  );
  if (!there || !wanted) return false;
  const isSame = there.ino === wanted.ino && there.dev === wanted.dev && there.ino !== 0;
  return isSame || (there.size === wanted.size && there.mtimeMs >= wanted.mtimeMs);
}

/** Tries again where Windows refuses because another program, such as a virus scanner, has the file open. */
export async function patiently<T>(
  work: () => Promise<T>,
  os: string = process.platform,
): Promise<T> {
  for (let waitMs = 20;; waitMs *= 2) {
    try {
      return await work();
    } catch (error) {
      const { code = "" } = error as { code?: string };
      const isHeld = os === "win32" && ["EACCES", "EBUSY", "EPERM"].includes(code);
      if (!isHeld || waitMs > LONGEST_WAIT_MS) throw error;
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }
}

const LONGEST_WAIT_MS = 1000;
