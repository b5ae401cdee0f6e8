/**
 * Records of jobs in SQLite; they survive a restart, and no record stays without an end.
 *
 * @module
 */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describeWriteError } from "../storage/write_error.ts";
import { isDead, lockedOwners, ServerLock } from "./server_lock.ts";

/** Where a job is. `queued` and `in_progress` lead to one of the three ends. */
export type JobStatus = "queued" | "in_progress" | "completed" | "failed" | "cancelled";

/** Why a job failed. */
export interface JobError {
  /** A word that programs can compare. */
  code: string;
  /** One sentence. */
  message: string;
}

/** A job as it is kept. Times are in Unix milliseconds. */
export interface JobRecord {
  /** `img_…` with a UUID. */
  id: string;
  /** What the job makes, such as `image`. */
  kind: string;
  /** Where it is. */
  status: JobStatus;
  /** Finished share of the work, 0 to 100. */
  progress: number;
  /** When it was queued. */
  createdAt: number;
  /** When the GPU began. */
  startedAt: number | null;
  /** When it ended, however it ended. */
  endedAt: number | null;
  /** What was asked for, a JSON value. */
  request: unknown;
  /** What came out, a JSON value; null unless completed. */
  result: unknown;
  /** Why it failed; null unless failed. */
  error: JobError | null;
}

/** The part of a record that changes. */
export type JobChange = Partial<
  Pick<JobRecord, "status" | "progress" | "startedAt" | "endedAt" | "result" | "error">
>;

const SCHEMA = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = NORMAL;
  PRAGMA busy_timeout = 5000;
  CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    progress INTEGER NOT NULL,
    owner TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    request TEXT NOT NULL,
    result TEXT,
    error TEXT,
    deaths INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE INDEX IF NOT EXISTS jobs_by_owner ON jobs (owner, status);
  CREATE INDEX IF NOT EXISTS jobs_by_time ON jobs (kind, created_at);
`;

/** Which records {@link JobStore.list} gives, and in what order. */
export interface JobFilter {
  /** What the jobs make; all of them when left out. */
  kind?: string;
  /** Where they are; anywhere when left out. */
  statuses?: readonly JobStatus[];
  /** Begin after the record of this id. */
  after?: string;
  /** Most records. */
  limit?: number;
  /** By the time they were queued; the newest first when left out. */
  order?: "asc" | "desc";
}

/** How to open a store. */
export interface JobStoreOptions {
  /** Take jobs that a dead server left, instead of ending them; see {@link JobStore.adopted}. */
  adopt?: boolean;
}

const COLUMNS = {
  status: "status",
  progress: "progress",
  startedAt: "started_at",
  endedAt: "ended_at",
  result: "result",
  error: "error",
} as const;

/** Servers that may die while they run a job, before it is taken for the reason. */
const MAX_DEATHS = 5;

const INTERRUPTED: JobError = {
  code: "interrupted",
  message: "Cannot finish the job: the server stopped while it ran; send the request again",
};

/**
 * The table of jobs. Several servers may share one folder: each marks its rows, and holds a lock
 * that the operating system frees when the server dies, so that the next one can tell which rows
 * nobody works on any more.
 */
export class JobStore {
  readonly #database: DatabaseSync;
  readonly #owner: string = crypto.randomUUID();
  readonly #adopts: boolean;
  #lock: ServerLock | undefined;

  /**
   * Opens the records and ends the jobs of servers that died.
   *
   * @param folder for `jobs.sqlite`, made where missing; records are kept in memory when left out
   * @param options what to do with jobs that were left
   * @throws {Error} when the folder or the file cannot be used
   */
  constructor(folder?: string, options: JobStoreOptions = {}) {
    this.#adopts = options.adopt === true;
    if (folder === undefined) {
      this.#database = new DatabaseSync(":memory:");
      this.#database.exec(SCHEMA);
      return;
    }
    try {
      mkdirSync(folder, { recursive: true });
      this.#lock = new ServerLock(folder, this.#owner);
      this.#database = new DatabaseSync(join(folder, "jobs.sqlite"));
      this.#database.exec(SCHEMA);
      this.#addColumns();
      this.#endOrphans(folder);
    } catch (cause) {
      this.#lock?.release();
      throw new Error(
        `Cannot open the records in ${folder}: ${describeWriteError(cause)}; ` +
          `name another folder with --output-path, or "" to keep nothing`,
        { cause },
      );
    }
  }

  /** Adds a queued job. */
  insert(job: { id: string; kind: string; request: unknown }): void {
    this.#database.prepare(
      `INSERT INTO jobs (id, kind, status, progress, owner, created_at, request)
       VALUES (?, ?, 'queued', 0, ?, ?, ?)`,
    ).run(job.id, job.kind, this.#owner, Date.now(), JSON.stringify(job.request));
  }

  /** Changes a job; nothing happens when there is none of that id. */
  update(id: string, change: JobChange): void {
    const names = Object.keys(change) as (keyof typeof COLUMNS)[];
    if (names.length === 0) return;
    const values = names.map((name) => {
      const value = change[name];
      return name === "result" || name === "error"
        ? toJson(value)
        : value as string | number | null;
    });
    const assignments = names.map((name) => `${COLUMNS[name]} = ?`).join(", ");
    this.#database.prepare(`UPDATE jobs SET ${assignments} WHERE id = ?`).run(...values, id);
  }

  /** The job of an id, or undefined. */
  get(id: string): JobRecord | undefined {
    const row = this.#database.prepare("SELECT * FROM jobs WHERE id = ?").get(id);
    return row === undefined ? undefined : toRecord(row);
  }

  /** Jobs that a dead server left and this one has taken: queued, the oldest first. */
  adopted(): JobRecord[] {
    return this.#database.prepare(
      "SELECT * FROM jobs WHERE owner = ? AND status = 'queued' ORDER BY created_at, rowid",
    ).all(this.#owner).map(toRecord);
  }

  /** The records that a filter chooses. */
  list({ kind, statuses, after, limit = -1, order = "desc" }: JobFilter = {}): JobRecord[] {
    const conditions: string[] = [];
    const values: (string | number)[] = [];
    if (kind !== undefined) {
      conditions.push("kind = ?");
      values.push(kind);
    }
    if (statuses !== undefined) {
      conditions.push(`status IN (${statuses.map(() => "?").join(", ")})`);
      values.push(...statuses);
    }
    if (after !== undefined) {
      // Jobs of one millisecond are in the order of their rows; an unknown id has nothing after it.
      const sign = order === "asc" ? ">" : "<";
      conditions.push(
        `(created_at, rowid) ${sign} (SELECT created_at, rowid FROM jobs WHERE id = ?)`,
      );
      values.push(after);
    }
    const where = conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : "";
    const direction = order === "asc" ? "ASC" : "DESC";
    return this.#database.prepare(
      `SELECT * FROM jobs ${where} ORDER BY created_at ${direction}, rowid ${direction} LIMIT ?`,
    ).all(...values, limit).map(toRecord);
  }

  /** How many jobs there are of each kind and status. */
  counts(): { kind: string; status: JobStatus; count: number }[] {
    return this.#database.prepare(
      "SELECT kind, status, count(*) AS count FROM jobs GROUP BY kind, status",
    ).all().map((row) => ({
      kind: String(row["kind"]),
      status: String(row["status"]) as JobStatus,
      count: Number(row["count"]),
    }));
  }

  /** Ended jobs whose end is further back than a time in Unix milliseconds, the oldest first. */
  endedBefore(time: number, limit: number): JobRecord[] {
    return this.#database.prepare(
      "SELECT * FROM jobs WHERE ended_at < ? ORDER BY ended_at LIMIT ?",
    ).all(time, limit).map(toRecord);
  }

  /** Removes the record of an id, if there is one. */
  delete(id: string): void {
    this.#database.prepare("DELETE FROM jobs WHERE id = ?").run(id);
  }

  /** Closes the file. Jobs that have not ended are ended as interrupted, or left to be adopted. */
  close(): void {
    try {
      if (!this.#adopts) this.#interrupt(this.#owner);
    } catch {
      // On a full disk, say: the next server to start does it.
    }
    this.#database.close();
    this.#lock?.release();
  }

  /** Brings a table of an older version up to this one. */
  #addColumns(): void {
    const columns = this.#database.prepare("PRAGMA table_info(jobs)").all();
    if (columns.some(({ name }) => name === "deaths")) return;
    this.#database.exec("ALTER TABLE jobs ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0");
  }

  #endOrphans(folder: string): void {
    const owners = this.#database.prepare(
      "SELECT DISTINCT owner FROM jobs WHERE status IN ('queued', 'in_progress')",
    ).all().map((row) => String(row["owner"]));
    for (const owner of new Set([...owners, ...lockedOwners(folder)])) {
      if (owner === this.#owner || !isDead(folder, owner)) continue;
      if (this.#adopts) this.#adopt(owner);
      else this.#interrupt(owner);
    }
  }

  #adopt(owner: string): void {
    this.#database.prepare(
      "UPDATE jobs SET deaths = deaths + 1 WHERE owner = ? AND status = 'in_progress'",
    ).run(owner);
    this.#interrupt(owner, MAX_DEATHS);
    this.#database.prepare(
      `UPDATE jobs SET owner = ?, status = 'queued', progress = 0, started_at = NULL
       WHERE owner = ? AND status IN ('queued', 'in_progress')`,
    ).run(this.#owner, owner);
  }

  #interrupt(owner: string, deaths = 0): void {
    this.#database.prepare(
      `UPDATE jobs SET status = 'failed', error = ?, ended_at = ?
       WHERE owner = ? AND status IN ('queued', 'in_progress') AND deaths >= ?`,
    ).run(JSON.stringify(INTERRUPTED), Date.now(), owner, deaths);
  }
}

function toJson(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}

function fromJson(value: unknown): unknown {
  return typeof value === "string" ? JSON.parse(value) : null;
}

function toRecord(row: Record<string, unknown>): JobRecord {
  const time = (value: unknown) => typeof value === "number" ? value : null;
  return {
    id: String(row["id"]),
    kind: String(row["kind"]),
    status: String(row["status"]) as JobStatus,
    progress: Number(row["progress"]),
    createdAt: Number(row["created_at"]),
    startedAt: time(row["started_at"]),
    endedAt: time(row["ended_at"]),
    request: fromJson(row["request"]),
    result: fromJson(row["result"]),
    error: fromJson(row["error"]) as JobError | null,
  };
}
