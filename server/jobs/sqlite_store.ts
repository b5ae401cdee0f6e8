/** Records of jobs in SQLite; they survive a restart. */

import type { DatabaseSync } from "node:sqlite";
import type { Log } from "../log.ts";
import { describeWriteError } from "../../generation/write_error.ts";
import {
  INTERRUPTED,
  type JobChange,
  type JobCount,
  type JobEntry,
  type JobFilter,
  type JobRecord,
  type JobStatus,
  type JobStore,
  type NewRecord,
  type RecordBounds,
  REPEAT_MS,
  type RepeatedRequest,
  RepeatedRequestError,
} from "./job_store.ts";
import {
  byAge,
  closePlace,
  columnsOf,
  isInPlace,
  LISTED,
  openJobTable,
  openPlace,
  type Place,
  replacePlace,
  toEntry,
  toJson,
  toRecord,
  transaction,
  whileLocked,
} from "./sqlite_file.ts";

export interface SqliteStoreOptions {
  /** Leave jobs that have not ended for the next server, and take those that the last one left. */
  resumes?: boolean;
  log?: Log;
  /** How long to wait for a database that another program has locked, in milliseconds; 5 s by default. */
  patienceMs?: number;
}

/** How long to wait for a lock when nothing else was said, in milliseconds. */
const PATIENCE_MS = 5000;

/** Jobs without results; the planner would rather sort them. */
const UNFINISHED = "jobs INDEXED BY jobs_unfinished WHERE status IN ('failed', 'cancelled')";

/** Servers that may die while they run a job, before it is taken for the reason. */
const MAX_DEATHS = 5;

/** The table of jobs in a folder that one server has at a time. */
export class SqliteJobStore implements JobStore {
  readonly #options: Required<SqliteStoreOptions>;
  readonly #folder: string | undefined;
  #place: Place;
  #isClosed = false;
  /** Jobs that the last server left and this one has taken over: queued, the oldest first. */
  left: readonly JobRecord[] = [];

  private constructor(place: Place, options: SqliteStoreOptions, folder?: string) {
    this.#place = place;
    this.#options = { resumes: false, log: () => {}, patienceMs: PATIENCE_MS, ...options };
    this.#folder = folder;
  }

  /** Records that end with the process. */
  static inMemory(): SqliteJobStore {
    return new SqliteJobStore({ database: openJobTable() }, {});
  }

  /** Opens `jobs.sqlite` of a folder. @throws {Error} when the folder or the file cannot be used */
  static async open(folder: string, options: SqliteStoreOptions = {}): Promise<SqliteJobStore> {
    try {
      const place = await whileLocked(
        () => openPlace(folder),
        options.patienceMs ?? PATIENCE_MS,
      );
      const store = new SqliteJobStore(place, options, folder);
      store.left = await store.#takeOver();
      return store;
    } catch (cause) {
      throw new Error(
        `Cannot open the records in ${folder}: ${describeWriteError(cause)}; ` +
          `name another folder with --output-path, or "" to keep nothing`,
        { cause },
      );
    }
  }

  async insert({ id, kind, request, summary, requestKey }: NewRecord): Promise<void> {
    await this.#returnToPlace();
    const { key = null, body = null } = requestKey ?? {};
    await this.#try((database) =>
      transaction(database, () => {
        const repeated = key === null ? undefined : findRepeated(database, key);
        if (repeated) throw new RepeatedRequestError(repeated);
        // One that has ended badly, or long ago, gives its key up.
        database.prepare("UPDATE jobs SET request_key = NULL WHERE request_key = ?").run(key);
        database.prepare(
          `INSERT INTO jobs (id, kind, status, progress, created_at, request, summary,
             request_key, request_body)
           VALUES (?, ?, 'queued', 0, ?, ?, ?, ?, ?)`,
        ).run(id, kind, Date.now(), JSON.stringify(request), toJson(summary), key, body);
      })
    );
  }

  findRepeated(key: string): Promise<RepeatedRequest | undefined> {
    return this.#try((database) => findRepeated(database, key));
  }

  async update(id: string, change: JobChange): Promise<boolean> {
    const columns = columnsOf(change);
    const names = Object.keys(columns);
    if (names.length === 0) return true;
    const assignments = names.map((name) => `${name} = ?`).join(", ");
    const { changes } = await this.#try((database) =>
      database.prepare(`UPDATE jobs SET ${assignments} WHERE id = ?`)
        .run(...Object.values(columns), id)
    );
    return changes > 0;
  }

  async get(id: string): Promise<JobRecord | undefined> {
    const row = await this.#try((database) =>
      database.prepare("SELECT * FROM jobs WHERE id = ?").get(id)
    );
    return row === undefined ? undefined : toRecord(row);
  }

  async list(
    { kind, statuses, after, limit = -1, order = "desc" }: JobFilter = {},
  ): Promise<JobEntry[]> {
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
    const rows = await this.#try((database) =>
      database.prepare(
        `SELECT ${LISTED} FROM jobs ${where}
         ORDER BY created_at ${direction}, rowid ${direction} LIMIT ?`,
      ).all(...values, limit)
    );
    return rows.map(toEntry);
  }

  async counts(): Promise<JobCount[]> {
    const rows = await this.#try((database) =>
      database.prepare("SELECT kind, status, count(*) AS count FROM jobs GROUP BY kind, status")
        .all()
    );
    return rows.map((row) => ({
      kind: String(row["kind"]),
      status: String(row["status"]) as JobStatus,
      count: Number(row["count"]),
    }));
  }

  async expired(
    { ms, unfinished }: RecordBounds,
    limit: number,
  ): Promise<Pick<JobEntry, "id" | "result">[]> {
    const oldest = (which: string) =>
      `SELECT * FROM (SELECT ${LISTED} FROM ${which} ORDER BY ended_at LIMIT ?)`;
    const beyond = `${UNFINISHED} AND ended_at < (SELECT ended_at FROM ${UNFINISHED}
      ORDER BY ended_at DESC LIMIT 1 OFFSET ?)`;
    const rows = await this.#try((database) =>
      database.prepare(`${oldest("jobs WHERE ended_at < ?")} UNION ${oldest(beyond)} LIMIT ?`)
        .all(Date.now() - ms, limit, unfinished - 1, limit, limit)
    );
    return rows.map(toEntry);
  }

  async delete(id: string): Promise<boolean> {
    const { changes } = await this.#try((database) =>
      database.prepare("DELETE FROM jobs WHERE id = ?").run(id)
    );
    return changes > 0;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      if (!this.#options.resumes) await this.#try((database) => interrupt(database));
    } catch {
      // On a full disk, say: the next server to start does it.
    }
    closePlace(this.#place);
  }

  #try<T>(work: (database: DatabaseSync) => T): Promise<T> {
    return whileLocked(() => work(this.#place.database), this.#options.patienceMs);
  }

  /** Ends the jobs that the last server left, or takes them over. */
  #takeOver(): Promise<JobRecord[]> {
    return this.#try((database) =>
      transaction(database, () => {
        if (!this.#options.resumes) {
          interrupt(database);
          return [];
        }
        database.exec("UPDATE jobs SET deaths = deaths + 1 WHERE status = 'in_progress'");
        interrupt(database, MAX_DEATHS);
        const rows = database.prepare(
          `UPDATE jobs SET status = 'queued', progress = 0, started_at = NULL
           WHERE status IN ('queued', 'in_progress') RETURNING rowid, *`,
        ).all();
        return rows.sort(byAge).map(toRecord);
      })
    );
  }

  /** Writes the records again when their file was removed or moved away under the server. */
  async #returnToPlace(): Promise<void> {
    const folder = this.#folder;
    if (folder === undefined || isInPlace(folder, this.#place)) return;
    this.#place = await whileLocked(
      () => isInPlace(folder, this.#place) ? this.#place : replacePlace(folder, this.#place),
      this.#options.patienceMs,
    );
    this.#options.log(
      `The records in ${folder} were removed or moved while this server used them: they were ` +
        "written anew, but results that were removed with them are gone",
      { level: "warning" },
    );
  }
}

function findRepeated(database: DatabaseSync, key: string): RepeatedRequest | undefined {
  const row = database.prepare(
    `SELECT id, request_body FROM jobs WHERE request_key = ? AND created_at > ?
     AND status NOT IN ('failed', 'cancelled')`,
  ).get(key, Date.now() - REPEAT_MS);
  return row && { id: String(row["id"]), body: String(row["request_body"]) };
}

/** Ends the jobs of a server that has died or stops. */
function interrupt(database: DatabaseSync, deaths = 0): void {
  database.prepare(
    `UPDATE jobs SET status = 'failed', error = ?, ended_at = ?
     WHERE status IN ('queued', 'in_progress') AND deaths >= ?`,
  ).run(JSON.stringify(INTERRUPTED), Date.now(), deaths);
}
