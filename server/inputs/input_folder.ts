/** Where the files of one request lie until its job has ended. */

import { randomUUID } from "node:crypto";
import { createWriteStream, mkdirSync, type WriteStream } from "node:fs";
import { lstat, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { PRIVATE_FILE, PRIVATE_FOLDER, requireFreeSpace } from "../storage/disk.ts";
import { storageFailed } from "../storage/failures.ts";
import { tmpdir } from "node:os";
import { lockFolder, wasLocked } from "../storage/folder_lock.ts";
import type { GivenInput } from "./kept_inputs.ts";

/** The files of one request: a folder that is made when the first one comes. */
export class InputFolder {
  readonly path: string;
  /** What the request brought, each as it came; filled while its inputs are read. */
  readonly given: GivenInput[] = [];
  #files = 0;

  /** `id` of a request whose files were kept; letters, digits, `_` and `-`. */
  constructor(root: string, id: string = randomUUID()) {
    if (!/^[\w-]+$/.test(id)) throw new RangeError(`Cannot keep files of a request named ${id}`);
    this.path = resolve(root, id);
  }

  async open(name: string): Promise<{ path: string; stream: WriteStream }> {
    const path = await this.#newPath(name);
    return { path, stream: createWriteStream(path, { flags: "wx", mode: PRIVATE_FILE }) };
  }

  async write(name: string, bytes: Uint8Array): Promise<string> {
    const path = await this.#newPath(name);
    try {
      await writeFile(path, bytes, { flag: "wx", mode: PRIVATE_FILE });
    } catch (error) {
      throw storageFailed(error);
    }
    return path;
  }

  /** @throws {ApiError} 500 when the disk is full or nearly so */
  async requireSpace(): Promise<void> {
    await requireFreeSpace(this.path);
  }

  /** Where a file of it lies, never outside of the folder. */
  pathOf(name: string): string {
    return join(this.path, basename(name));
  }

  /** Removes everything that can be; the rest is left to the next server. */
  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true }).catch(() => {});
  }

  async #newPath(name: string): Promise<string> {
    try {
      await mkdir(this.path, { recursive: true, mode: PRIVATE_FOLDER });
    } catch (error) {
      throw storageFailed(error);
    }
    await this.requireSpace();
    return join(this.path, `${this.#files++}_${sanitizeFileName(name)}`);
  }
}

/** Longest name that is kept, in characters. */
const MAX_LENGTH = 100;

/** A client's name made safe: letters, digits, `_`, `-` and `.`, not first or last; `upload` where nothing is left. */
export function sanitizeFileName(name: string): string {
  // A long row of accents would take the square of its length.
  const last = name.slice(-4 * MAX_LENGTH).normalize("NFKD").split(/[/\\]/).at(-1) ?? "";
  const safe = last.replaceAll(/[^A-Za-z0-9._-]+/g, "_").replaceAll(/_+/g, "_");
  const trimmed = safe.slice(-MAX_LENGTH).replaceAll(/^[._-]+|[._-]+$/g, "");
  return trimmed || "upload";
}

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
    // Some disks of Windows keep a folder with an open file.
    this.#lock?.[Symbol.dispose]();
    await removeFolder(this.path);
  }
}

async function removeFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true }).catch(() => {});
}
