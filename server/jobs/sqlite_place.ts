/** The folder of a server's records: the file, the lock that keeps other servers out, and waits for locks of other programs. */

import { existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { makePrivateFile, PRIVATE_FOLDER } from "../storage/disk.ts";
import { lockFolder } from "../storage/folder_lock.ts";
import { RecordsBusyError } from "../contract/errors.ts";
import { openJobTable, transaction } from "./sqlite_schema.ts";

const FILE = "jobs.sqlite";

export interface Place {
  readonly database: DatabaseSync;
  /** Absent where no other server can see the records. */
  readonly lock?: Disposable;
  /** Number of the file where the file system has such. */
  readonly inode?: number;
}

/** @throws {RecordsBusyError} while another server uses the folder; {Error} what the file system or SQLite says */
export function openPlace(folder: string): Place {
  mkdirSync(folder, { recursive: true, mode: PRIVATE_FOLDER });
  const lock = lockFolder(folder);
  if (!lock) throw new RecordsBusyError("another server uses this folder");
  try {
    const path = join(folder, FILE);
    // SQLite gives what it keeps beside the file the same mode.
    makePrivateFile(path);
    return { lock, database: openJobTable(path), inode: statSync(path).ino };
  } catch (error) {
    lock[Symbol.dispose]();
    throw error;
  }
}

/** Lets go of records and lock. */
export function closePlace({ database, lock }: Place): void {
  database.close();
  lock?.[Symbol.dispose]();
}

/** Whether a folder still has the file that is open. */
export function isInPlace(folder: string, { inode }: Place): boolean {
  return statSync(join(folder, FILE), { throwIfNoEntry: false })?.ino === inode;
}

/** Opens the records of a folder again, with all that was in a file that it has no more; `lost` stays open when that fails. */
export function replacePlace(folder: string, lost: Place): Place {
  const path = join(folder, FILE);
  // What lies beside a file that is gone is of the lost one, and must not be taken for the new one's.
  if (!existsSync(path)) {
    for (const end of ["-wal", "-shm"]) {
      rmSync(path + end, { force: true });
    }
  }
  lost.lock?.[Symbol.dispose]();
  const found = openPlace(folder);
  try {
    transaction(found.database, () => copyRows(lost.database, found.database));
  } catch (error) {
    closePlace(found);
    throw error;
  }
  // SQLite sees that the file was moved, and leaves the log of the new one alone.
  lost.database.close();
  return found;
}

function copyRows(from: DatabaseSync, to: DatabaseSync): void {
  for (const row of from.prepare("SELECT * FROM jobs ORDER BY rowid").iterate()) {
    const names = Object.keys(row);
    to.prepare(
      `INSERT OR IGNORE INTO jobs (${names.join(", ")}) VALUES (${
        names.map(() => "?").join(", ")
      })`,
    ).run(...Object.values(row));
  }
}

/** Longest pause between two attempts, in milliseconds. */
const MAX_PAUSE_MS = 100;

/**
 * Does something to a database, again and again while it is locked. The first attempt is made at
 * once, before anything else can happen.
 *
 * @param work one attempt; its statements must have a busy timeout of zero
 * @param patienceMs how long to go on, in milliseconds
 * @returns what the attempt gave that found no lock
 * @throws {RecordsBusyError} when it was locked all the time; what `work` throws otherwise
 */
export async function whileLocked<T>(work: () => T, patienceMs: number): Promise<T> {
  const end = performance.now() + patienceMs;
  for (let pause = 2;; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
    try {
      return work();
    } catch (error) {
      if (!isLocked(error)) throw error;
      if (performance.now() + pause > end) {
        if (error instanceof RecordsBusyError) throw error;
        throw new RecordsBusyError(
          `Cannot use the records of jobs: another program has had them locked for ${
            patienceMs / 1000
          } s; end it, or try again later`,
          { cause: error },
        );
      }
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** Whether a lock was met: SQLite gives no code, but these words. */
function isLocked(error: unknown): boolean {
  return error instanceof RecordsBusyError ||
    error instanceof Error && /^database (?:table |schema )?is locked/.test(error.message);
}
