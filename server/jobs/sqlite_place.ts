/**
 * The folder of a server's records: the file, and the lock that says that its rows' server lives.
 */

import { existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { makePrivateFile, PRIVATE_FOLDER } from "../storage/private_files.ts";
import { ServerLock } from "./server_lock.ts";
import { openJobTable, transaction } from "./sqlite_schema.ts";

const FILE = "jobs.sqlite";

/** Open records. */
export interface Place {
  /** UUID of the server. */
  readonly owner: string;
  /** The records. */
  readonly database: DatabaseSync;
  /** Absent where no other server can see the records. */
  readonly lock?: ServerLock;
  /** Number of the file where the file system has such. */
  readonly inode?: number;
}

/**
 * Opens the records of a folder.
 *
 * @throws {Error} what the file system or SQLite says
 */
export function openPlace(folder: string, owner: string): Place {
  mkdirSync(folder, { recursive: true, mode: PRIVATE_FOLDER });
  const lock = new ServerLock(folder, owner);
  try {
    const path = join(folder, FILE);
    // SQLite gives what it keeps beside the file the same mode.
    makePrivateFile(path);
    return { owner, lock, database: openJobTable(path), inode: statSync(path).ino };
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** Lets go of records and lock. */
export function closePlace({ database, lock }: Place): void {
  database.close();
  lock?.release();
}

/** Whether a folder still has the file that is open. */
export function isInPlace(folder: string, { inode }: Place): boolean {
  return statSync(join(folder, FILE), { throwIfNoEntry: false })?.ino === inode;
}

/**
 * Opens the records of a folder anew, with all that was in a file that it has no more.
 *
 * @throws {Error} what the file system or SQLite says; `lost` stays open then
 */
export function replacePlace(folder: string, lost: Place): Place {
  const path = join(folder, FILE);
  // What lies beside a file that is gone is of the lost one, and must not be taken for the new one's.
  if (!existsSync(path)) {
    for (const end of ["-wal", "-shm"]) {
      rmSync(path + end, { force: true });
    }
  }
  const found = openPlace(folder, lost.owner);
  try {
    transaction(found.database, () => copyRows(lost.database, found.database));
  } catch (error) {
    closePlace(found);
    throw error;
  }
  // SQLite sees that the file was moved, and leaves the log of the new one alone.
  lost.database.close();
  lost.lock?.forget();
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
