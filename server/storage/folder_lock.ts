/** Which folders a living process uses: the operating system frees its lock when it dies. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { PRIVATE_FILE } from "./disk.ts";

const NAME = ".server.lock";

/** Takes a folder for this process, or nothing where another has it. The file stays: one that is made again could be locked twice. */
export function lockFolder(folder: string): Disposable | undefined {
  const file = Deno.openSync(join(folder, NAME), {
    write: true,
    create: true,
    mode: PRIVATE_FILE,
  });
  if (file.tryLockSync(true)) return file;
  file.close();
  return undefined;
}

/** Whether a process has ever taken a folder. */
export function wasLocked(folder: string): boolean {
  return existsSync(join(folder, NAME));
}
