/**
 * Telling servers that live from those that died: each holds a lock that the operating system frees
 * at its death.
 */

import { readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { PRIVATE_FILE } from "../storage/private_files.ts";

const LOCK_NAME = /^\.server-([0-9a-f-]{36})\.lock$/;

/** The lock of one server in its folder of records. */
export class ServerLock {
  readonly #path: string;
  readonly #file: Deno.FsFile;

  /**
   * Takes the lock.
   *
   * @throws {Error} when the folder cannot be written to
   */
  constructor(folder: string, owner: string) {
    this.#path = lockPath(folder, owner);
    // Nobody may see the file before it is locked, or they would take its owner for dead.
    const hidden = `${this.#path}.new`;
    this.#file = Deno.openSync(hidden, { write: true, create: true, mode: PRIVATE_FILE });
    this.#file.lockSync(true);
    renameSync(hidden, this.#path);
  }

  /** Gives the lock back; must be called once. */
  release(): void {
    this.forget();
    try {
      rmSync(this.#path, { force: true });
    } catch {
      // Its folder is gone, or cannot be written to any more; whoever finds the file takes the server for dead.
    }
  }

  /** Gives the lock back whose file was lost or replaced; must be called once. */
  forget(): void {
    this.#file.close();
  }
}

/** The servers that a folder has locks of, living and dead ones. */
export function lockedOwners(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => LOCK_NAME.exec(name)?.[1] ?? []);
}

/**
 * Whether a server has died; its lock is removed then.
 *
 * @returns false while it lives
 */
export function isDead(folder: string, owner: string): boolean {
  const path = lockPath(folder, owner);
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path, { write: true });
  } catch {
    return true;
  }
  const isFree = file.tryLockSync(true);
  file.close();
  if (isFree) rmSync(path, { force: true });
  return isFree;
}

function lockPath(folder: string, owner: string): string {
  return join(folder, `.server-${owner}.lock`);
}
