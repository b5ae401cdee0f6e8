/** The table of jobs in SQLite: made where it is missing, brought up to date where it is older. */

import { DatabaseSync } from "node:sqlite";

/**
 * No busy timeout: it would stop the whole thread. The file shrinks when records go, and so does
 * the write-ahead log.
 */
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

/**
 * Opens the table of jobs.
 *
 * @param path of the file; in memory when left out
 * @returns the database, with a busy timeout of zero
 * @throws {Error} what SQLite says, a lock of another program among it
 */
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

/**
 * Makes several changes, all or none.
 *
 * @returns what `work` gave
 */
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

/** A file that was made without auto-vacuum gets it when it is written anew. */
function rewrite(database: DatabaseSync): void {
  try {
    database.exec("VACUUM");
  } catch {
    // Another server is at work in it, or the disk is full: the next start tries again.
  }
}
