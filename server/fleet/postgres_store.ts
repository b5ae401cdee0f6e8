/**
 * Records of jobs in PostgreSQL, which many servers share.
 *
 * @module
 */

import type { Fragment } from "postgres";
import {
  type JobChange,
  type JobCount,
  type JobEntry,
  type JobError,
  type JobFilter,
  type JobRecord,
  type JobStatus,
  type JobStore,
  type NewRecord,
} from "../jobs/job_store.ts";
import { LISTED, toEntry, toJson, toRecord } from "../jobs/sqlite_rows.ts";
import type { Database } from "./database.ts";

/** How long a record may wait for a database that is not at hand, in milliseconds. */
const PATIENCE_MS = 3000;
/** Workers that may die while they run a job, before it fails. */
const MAX_DEATHS = 2;
/** Most jobs whose lease is taken in one go. */
const MAX_REAPED = 100;
/**
 * For how long after its start the database takes nobody for dead, in seconds: until then nobody could say that it
 * lives. Longer than a lease.
 */
const SETTLE_S = 10;

/** What is recorded of a job whose workers died. */
export const WORKERS_LOST: JobError = {
  code: "worker_lost",
  message: `Cannot finish the job: ${MAX_DEATHS} workers stopped without a word while they ran it; ` +
    "send the request again",
};

/** A job to be queued, with what it is routed by. */
export interface QueuedRecord extends NewRecord {
  /** Whose it is. */
  readonly client: string;
  /** Public name of its model. */
  readonly model: string | undefined;
  /** What its LoRAs are called. */
  readonly loras: readonly string[];
  /** Server that took it. */
  readonly front: string;
  /** Whether it waits for nothing but its turn. */
  readonly isReady: boolean;
  /** Files that came with it. */
  readonly inputs: readonly InputPart[];
}

/** A piece of a file. */
export interface InputPart {
  /** Of the file. */
  readonly name: string;
  /** Which piece, from 0. */
  readonly part: number;
  /** The piece. */
  readonly bytes: Uint8Array;
}

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

const JSON_COLUMNS: readonly string[] = ["revisedPrompt", "result", "error"];

/** What ids are made of: PostgreSQL would refuse texts that hold NUL. */
const ID = /^[\w.-]{1,200}$/;

/** Milliseconds since 1970 by the clock of the database: those of many machines differ. */
const NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/** See the module. */
export class PostgresJobStore implements JobStore {
  readonly #database: Database;
  /** Ids that were asked for in this turn of the event loop, read together. */
  #asked: Map<string, PromiseWithResolvers<JobRecord | undefined>> | undefined;

  /** @param database with its tables up to date */
  constructor(database: Database) {
    this.#database = database;
  }

  /** See {@link JobStore.insert}. */
  async insert(job: NewRecord): Promise<void> {
    await this.enqueue({
      ...{ ...job, client: "", model: undefined, loras: [], front: "" },
      ...{ isReady: true, inputs: [] },
    }, Infinity);
  }

  /**
   * Adds a queued job with the files that it needs.
   *
   * @param job to be queued
   * @param room how many jobs may wait before it
   * @returns whether there was room
   */
  async enqueue(job: QueuedRecord, room: number): Promise<boolean> {
    const { id, kind, request, summary, client, model = null, loras, front, isReady } = job;
    const bytes = job.inputs.reduce((sum, part) => sum + part.bytes.length, 0);
    const most = Number.isFinite(room) ? Math.floor(room) : null;
    return await this.#database.transaction(async (sql) => {
      const added = await sql`
        INSERT INTO denoise_jobs
          (id, kind, status, created_at, request, summary, client, model, loras, front, is_ready, bytes)
        SELECT ${id}, ${kind}, 'queued', ${sql.unsafe(NOW)}, ${JSON.stringify(request)},
          ${toJson(summary)}, ${client}, ${model}, ${sql.array([...loras], 25)}, ${front},
          ${isReady}, ${bytes}
        WHERE ${most}::integer IS NULL OR ${most}::integer >
          (SELECT count(*) FROM denoise_jobs WHERE status = 'queued')
        ON CONFLICT (id) DO NOTHING RETURNING id`;
      // An attempt before this one may have come through without an answer.
      if (added.length === 0) return (await sql`SELECT 1 FROM denoise_jobs WHERE id = ${id}`).length > 0;
      for (const { name, part, bytes } of job.inputs) {
        await sql`INSERT INTO denoise_inputs VALUES (${id}, ${name}, ${part}, ${bytes})`;
      }
      return true;
    }, PATIENCE_MS);
  }

  /** See {@link JobStore.update}. */
  async update(id: string, change: JobChange): Promise<boolean> {
    const columns = columnsOf(change);
    if (Object.keys(columns).length === 0) return true;
    const { count } = await this.#database.use(
      (sql) => sql`UPDATE denoise_jobs SET ${sql(columns)} WHERE id = ${id}`,
      PATIENCE_MS,
    );
    return count > 0;
  }

  /** See {@link JobStore.get}. All that are asked for at once are read at once. */
  get(id: string): Promise<JobRecord | undefined> {
    if (!ID.test(id)) return Promise.resolve(undefined);
    if (!this.#asked) {
      this.#asked = new Map();
      setTimeout(() => void this.#getAll());
    }
    const asked = this.#asked.get(id) ?? Promise.withResolvers();
    this.#asked.set(id, asked);
    return asked.promise;
  }

  /** See {@link JobStore.list}. */
  async list(
    { kind, statuses, after, limit, order = "desc" }: JobFilter = {},
  ): Promise<JobEntry[]> {
    if (after !== undefined && !ID.test(after)) return [];
    const rows = await this.#database.use((sql) => {
      const conditions: Fragment[] = [sql`true`];
      if (kind !== undefined) conditions.push(sql`kind = ${kind}`);
      if (statuses !== undefined) conditions.push(sql`status = ANY(${sql.array([...statuses], 25)})`);
      if (after !== undefined) {
        const sign = sql.unsafe(order === "asc" ? ">" : "<");
        conditions.push(sql`(created_at, seq) ${sign} (SELECT created_at, seq FROM denoise_jobs
          WHERE id = ${after})`);
      }
      const direction = sql.unsafe(order === "asc" ? "ASC" : "DESC");
      return sql`SELECT ${sql.unsafe(LISTED)} FROM denoise_jobs
        WHERE ${conditions.reduce((all, one) => sql`${all} AND ${one}`)}
        ORDER BY created_at ${direction}, seq ${direction} LIMIT ${limit ?? null}`;
    });
    return rows.map(toEntry);
  }

  /** See {@link JobStore.counts}. */
  async counts(): Promise<JobCount[]> {
    const rows = await this.#database.use((sql) =>
      sql`SELECT kind, status, count(*) AS count FROM denoise_jobs GROUP BY kind, status`
    );
    return rows.map((row) => ({
      kind: String(row["kind"]),
      status: String(row["status"]) as JobStatus,
      count: Number(row["count"]),
    }));
  }

  /** See {@link JobStore.endedBefore}. */
  async endedBefore(time: number, limit: number): Promise<Pick<JobEntry, "id" | "result">[]> {
    const rows = await this.#database.use((sql) =>
      sql`SELECT ${sql.unsafe(LISTED)} FROM denoise_jobs WHERE ended_at < ${time}
        ORDER BY ended_at LIMIT ${limit}`
    );
    return rows.map(toEntry);
  }

  /** See {@link JobStore.delete}. */
  async delete(id: string): Promise<void> {
    await this.#database.use((sql) => sql`DELETE FROM denoise_jobs WHERE id = ${id}`, PATIENCE_MS);
  }

  /** See {@link JobStore.requestCancel}. */
  async requestCancel(id: string): Promise<void> {
    await this.#database.use((sql) =>
      sql`WITH asked AS (
          UPDATE denoise_jobs SET cancel = true
          WHERE id = ${id} AND status IN ('queued', 'in_progress') RETURNING id)
        SELECT pg_notify('denoise_jobs', id || ' cancel') FROM asked`, PATIENCE_MS);
  }

  /** See {@link JobStore.cancelRequests}; those of all servers. */
  async cancelRequests(): Promise<string[]> {
    const rows = await this.#database.use((sql) =>
      sql`SELECT id FROM denoise_jobs WHERE status IN ('queued', 'in_progress') AND cancel`
    );
    return rows.map(({ id }) => String(id));
  }

  /**
   * Ends a job that waits and was asked to be cancelled.
   *
   * @param id of the job
   */
  async cancelWaiting(id: string): Promise<void> {
    await this.#database.use((sql) =>
      sql`UPDATE denoise_jobs SET status = 'cancelled', ended_at = ${sql.unsafe(NOW)}
        WHERE id = ${id} AND status = 'queued'`, PATIENCE_MS);
  }

  /**
   * See {@link JobStore.reap}: jobs whose worker has let its lease run out wait again, or fail where
   * that is not the first time. Any member of the fleet may call it at any time.
   *
   * @returns nothing: workers claim what waits
   */
  async reap(): Promise<JobRecord[]> {
    await this.#database.use((sql) =>
      sql`UPDATE denoise_jobs SET
          deaths = deaths + 1,
          status = CASE WHEN cancel THEN 'cancelled' WHEN deaths + 1 >= ${MAX_DEATHS} THEN 'failed'
            ELSE 'queued' END,
          error = CASE WHEN NOT cancel AND deaths + 1 >= ${MAX_DEATHS}
            THEN ${JSON.stringify(WORKERS_LOST)} END,
          error_status = CASE WHEN NOT cancel AND deaths + 1 >= ${MAX_DEATHS} THEN 503 END,
          ended_at = CASE WHEN cancel OR deaths + 1 >= ${MAX_DEATHS} THEN ${sql.unsafe(NOW)} END,
          progress = 0, started_at = NULL, lease_until = NULL
        WHERE id IN (
          SELECT id FROM denoise_jobs WHERE status = 'in_progress' AND lease_until < clock_timestamp()
            AND pg_postmaster_start_time() < clock_timestamp() - make_interval(secs => ${SETTLE_S})
          LIMIT ${MAX_REAPED} FOR UPDATE SKIP LOCKED)`
    );
    return [];
  }

  /**
   * Jobs that their server took and did not make ready before it died; they are this server's then.
   *
   * @param front this server
   * @param deadAfterMs how long a server may be silent, in milliseconds
   * @returns the jobs, the oldest first
   */
  async adopt(front: string, deadAfterMs: number): Promise<JobRecord[]> {
    const rows = await this.#database.use((sql) =>
      sql`UPDATE denoise_jobs SET front = ${front} WHERE id IN (
          SELECT id FROM denoise_jobs WHERE status = 'queued' AND NOT is_ready
            AND NOT EXISTS (SELECT 1 FROM denoise_members m WHERE m.id = denoise_jobs.front
              AND m.seen_at > clock_timestamp() - make_interval(secs => ${deadAfterMs / 1000}))
          ORDER BY seq LIMIT ${MAX_REAPED} FOR UPDATE SKIP LOCKED) RETURNING *`
    );
    return rows.map(toRecord);
  }

  /**
   * Jobs that have ended and of which nobody was told; each is given to one caller.
   *
   * @returns their records
   */
  async untold(): Promise<JobRecord[]> {
    const rows = await this.#database.use((sql) =>
      sql`UPDATE denoise_jobs SET is_told = true WHERE id IN (
          SELECT id FROM denoise_jobs WHERE NOT is_told AND ended_at IS NOT NULL
          ORDER BY seq LIMIT ${MAX_REAPED} FOR UPDATE SKIP LOCKED) RETURNING *`
    );
    return rows.map(toRecord);
  }

  /** See {@link JobStore.close}; jobs are the fleet's, and go on. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  async #getAll(): Promise<void> {
    const asked = this.#asked!;
    this.#asked = undefined;
    try {
      const ids = [...asked.keys()];
      const rows = await this.#database.use((sql) =>
        sql`SELECT * FROM denoise_jobs WHERE id = ANY(${sql.array(ids, 25)})`
      );
      const found = new Map(rows.map((row) => [String(row["id"]), row]));
      for (const [id, { resolve }] of asked) {
        const row = found.get(id);
        resolve(row && toRecord(row));
      }
    } catch (error) {
      for (const { reject } of asked.values()) reject(error);
    }
  }
}

/**
 * The columns that a change sets.
 *
 * @param change of a job
 * @returns values by column
 */
export function columnsOf(change: JobChange): Record<string, string | number | null> {
  const names = Object.keys(change) as (keyof typeof CHANGED)[];
  return Object.fromEntries(names.map((name) => {
    const value = change[name];
    const stored = JSON_COLUMNS.includes(name) ? toJson(value) : value as string | number | null;
    return [CHANGED[name], stored];
  }));
}
