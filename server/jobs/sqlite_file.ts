/** The table of jobs in SQLite: made if it is missing, brought up to date if it is older; its rows as records. */

import { DatabaseSync } from "node:sqlite";
import {
  DAMAGED,
  type JobChange,
  type JobEntry,
  type JobError,
  type JobRecord,
  type JobStatus,
} from "./job_store.ts";
import { existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { makePrivateFile, PRIVATE_FOLDER } from "../storage/disk.ts";
import { lockFolder } from "../storage/folder_lock.ts";
import { RecordsBusyError } from "../contract/errors.ts";

/** No busy timeout: it would stop the whole thread. The file and the write-ahead log shrink when records go. */
const SETTINGS = `
  PRAGMA auto_vacuum = FULL;
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = NORMAL;
  PRAGMA journal_size_limit = 4194304;
`;

const TABLE = `
  CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    progress INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    request TEXT NOT NULL,
    summary TEXT,
    revised_prompt TEXT,
    result TEXT,
    error TEXT,
    deaths INTEGER NOT NULL DEFAULT 0,
    request_key TEXT,
    request_body TEXT
  ) STRICT;
  CREATE INDEX IF NOT EXISTS jobs_by_time ON jobs (kind, created_at);
  CREATE INDEX IF NOT EXISTS jobs_by_status ON jobs (status, created_at);
  CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (ended_at) WHERE ended_at IS NOT NULL;
  CREATE INDEX IF NOT EXISTS jobs_unfinished ON jobs (ended_at)
    WHERE status IN ('failed', 'cancelled');
  CREATE INDEX IF NOT EXISTS jobs_by_kind ON jobs (kind, status);
`;

/** Indices of columns that tables of older versions lack. */
const INDICES = `
  CREATE UNIQUE INDEX IF NOT EXISTS jobs_by_request ON jobs (request_key)
    WHERE request_key IS NOT NULL;
`;

/** Columns that tables of older versions lack, and what fills them. */
const ADDED: readonly (readonly [column: string, type: string, fill?: string])[] = [
  ["deaths", "INTEGER NOT NULL DEFAULT 0"],
  ["summary", "TEXT", "UPDATE jobs SET summary = request"],
  [
    "revised_prompt",
    "TEXT",
    `UPDATE jobs SET revised_prompt = json_quote(json_extract(request, '$.revisedPrompt'))
     WHERE json_valid(request)`,
  ],
  ["request_key", "TEXT"],
  ["request_body", "TEXT"],
];

/** Columns of older versions, in whose folders several servers could be. */
const REMOVED: readonly string[] = ["owner", "cancel"];

/** Opens the table of jobs, with a busy timeout of zero. @throws {Error} what SQLite says, a lock of another program among it */
export function openJobTable(path = ":memory:"): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    const isOfOldKind = hasTable(database) && !shrinks(database);
    database.exec(SETTINGS);
    transaction(database, () => bringUpToDate(database));
    if (isOfOldKind) rewrite(database);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Makes several changes, all or none. */
export function transaction<T>(database: DatabaseSync, work: () => T): T {
  database.exec("BEGIN IMMEDIATE");
  try {
    const done = work();
    database.exec("COMMIT");
    return done;
  } catch (error) {
    // A full disk may have rolled it back already.
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}

function bringUpToDate(database: DatabaseSync): void {
  database.exec(TABLE);
  const columns = database.prepare("PRAGMA table_info(jobs)").all().map(({ name }) => name);
  for (const [column, type, fill] of ADDED) {
    if (columns.includes(column)) continue;
    database.exec(`ALTER TABLE jobs ADD COLUMN ${column} ${type}`);
    if (fill) database.exec(fill);
  }
  database.exec("DROP INDEX IF EXISTS jobs_by_owner");
  for (const column of REMOVED) {
    if (columns.includes(column)) database.exec(`ALTER TABLE jobs DROP COLUMN ${column}`);
  }
  database.exec(INDICES);
}

function hasTable(database: DatabaseSync): boolean {
  return database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").get() !== undefined;
}

function shrinks(database: DatabaseSync): boolean {
  return database.prepare("PRAGMA auto_vacuum").get()?.["auto_vacuum"] !== 0;
}

/** A file that was made without auto-vacuum gets it when it is written again. */
function rewrite(database: DatabaseSync): void {
  try {
    database.exec("VACUUM");
  } catch {
    // Another server is at work in it, or the disk is full: the next start tries again.
  }
}

export const LISTED =
  "id, kind, status, progress, created_at, started_at, ended_at, summary, revised_prompt, result, " +
  "error";

/** Columns by the names of a change. */
const CHANGED = {
  status: "status",
  progress: "progress",
  startedAt: "started_at",
  endedAt: "ended_at",
  revisedPrompt: "revised_prompt",
  result: "result",
  error: "error",
} as const;

/** Fields that are kept as JSON: plain texts would lose NUL and halves of surrogate pairs. */
const JSON_FIELDS: readonly string[] = ["revisedPrompt", "result", "error"];

const STATUSES: readonly string[] = ["queued", "in_progress", "completed", "failed", "cancelled"];

/** The order in which rows came. */
export function byAge(one: Record<string, unknown>, other: Record<string, unknown>): number {
  return Number(one["created_at"]) - Number(other["created_at"]) ||
    Number(one["rowid"]) - Number(other["rowid"]);
}

/** A JSON value as a column holds it. */
export function toJson(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}

/** The columns that a change of a job sets, with their values; `errorStatus` has none in a store of one server. */
export function columnsOf(
  { errorStatus: _, ...change }: JobChange,
): Record<string, string | number | null> {
  const names = Object.keys(change) as (keyof typeof CHANGED)[];
  return Object.fromEntries(names.map((name) => {
    const value = change[name];
    const stored = JSON_FIELDS.includes(name) ? toJson(value) : value as string | number | null;
    return [CHANGED[name], stored];
  }));
}

export function toRecord(row: Record<string, unknown>): JobRecord {
  const entry = toEntry(row);
  try {
    return { ...entry, request: fromJson(row["request"]) };
  } catch {
    return { ...damaged(entry), request: null };
  }
}

/** The job of a row of {@link LISTED} columns. */
export function toEntry(row: Record<string, unknown>): JobEntry {
  const time = (value: unknown) => typeof value === "number" ? value : null;
  const entry: JobEntry = {
    id: String(row["id"]),
    kind: String(row["kind"]),
    status: String(row["status"]) as JobStatus,
    progress: Number(row["progress"]),
    createdAt: Number(row["created_at"]),
    startedAt: time(row["started_at"]),
    endedAt: time(row["ended_at"]),
    summary: null,
    revisedPrompt: null,
    result: null,
    error: null,
  };
  try {
    if (!STATUSES.includes(entry.status)) throw new TypeError("it has no status");
    return {
      ...entry,
      summary: fromJson(row["summary"]),
      revisedPrompt: fromJson(row["revised_prompt"]) as string | null,
      result: fromJson(row["result"]),
      error: fromJson(row["error"]) as JobError | null,
    };
  } catch {
    return damaged(entry);
  }
}

function fromJson(value: unknown): unknown {
  return typeof value === "string" ? JSON.parse(value) : null;
}

function damaged(entry: JobEntry): JobEntry {
  return { ...entry, status: "failed", result: null, error: DAMAGED };
}

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
