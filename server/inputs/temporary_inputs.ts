/** The folder for uploads of a server that keeps no results: among the system's temporary files. */

import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { lstat, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { lockFolder, wasLocked } from "../storage/folder_lock.ts";
import { PRIVATE_FOLDER } from "../storage/disk.ts";

const NAME = /^denoise-inputs-[0-9a-f-]{36}$/;

/** The folder for uploads of a server that keeps no results. */
export class TemporaryInputs {
  readonly path: string;
  readonly #root: string;
  readonly #lock: Disposable | undefined;

  constructor(root = tmpdir()) {
    this.#root = root;
    this.path = join(root, `denoise-inputs-${randomUUID()}`);
    try {
      mkdirSync(this.path, { mode: PRIVATE_FOLDER });
      this.#lock = lockFolder(this.path);
    } catch {
      // Nothing can be written: such a server takes no uploads, but may do without.
    }
  }

  /** Removes the folders of servers of this user that were killed. */
  async removeDead(): Promise<void> {
    for (const name of await readdir(this.#root).catch(() => [])) {
      if (!NAME.test(name)) continue;
      const path = join(this.#root, name);
      // Others may have put anything there.
      const owner = await lstat(path).then(({ uid }) => uid, () => undefined);
      if (owner !== (Deno.uid() ?? owner)) continue;
      try {
        // A folder without a lock is about to be locked.
        using lock = wasLocked(path) ? lockFolder(path) : undefined;
        if (lock) await removeFolder(path);
      } catch {
        // It is no folder, or another server removes it as well.
      }
    }
  }

  async remove(): Promise<void> {
    await removeFolder(this.path);
    this.#lock?.[Symbol.dispose]();
  }
}

async function removeFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true }).catch(() => {});
}
