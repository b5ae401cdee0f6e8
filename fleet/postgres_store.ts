/** Records of jobs in PostgreSQL, which many servers share. */

import type { Fragment, Sql } from "postgres";
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
  type RecordBounds,
  REPEAT_MS,
  type RepeatedRequest,
  RepeatedRequestError,
} from "../server/jobs/job_store.ts";
import { columnsOf, LISTED, toEntry, toJson, toRecord } from "../server/jobs/job_rows.ts";
import { type Database, texts } from "./database.ts";
import { type InputFile, writeInputs } from "./input_parts.ts";
import type { KnownRecords } from "./known_records.ts";
import { hasRoom } from "../server/fair_share.ts";
import { CLOCK_JOBS, clockOf, giveTurn } from "./policy.ts";
import { RecordReader } from "./record_reader.ts";

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
const SETTLE_S = 8;

/** What is recorded of a job whose workers died. */
const WORKERS_LOST: JobError = {
  code: "worker_lost",
  message:
    `Cannot finish the job: ${MAX_DEATHS} workers stopped without a word while they ran it; ` +
    "send the request again",
};

/** A job to be queued, with what it is routed by. */
export interface QueuedRecord extends NewRecord {
  /** Whose it is. */
  readonly client: string;
  /** Public name of its model. */
  readonly model: string | undefined;
  /** LoRAs of the job with their strengths, as comparable texts. */
  readonly loras: readonly string[];
  /** Higher goes first. */
  readonly priority: number;
  /** Bytes that a worker's device must have at least; 0 where that is not known. */
  readonly memory: number;
  /** How long it is expected to take, in seconds. */
  readonly seconds: number;
  /** Server that took it. */
  readonly front: string;
  /** Whether the job waits for nothing but its turn. */
  readonly isReady: boolean;
  /** Files that came with it. */
  readonly inputs: readonly InputFile[];
}

/** What a job has that nothing is said of. */
const ANYBODYS: Omit<QueuedRecord, keyof NewRecord> = {
  client: "",
  model: undefined,
  loras: [],
  priority: 0,
  memory: 0,
  seconds: 1,
  front: "",
  isReady: true,
  inputs: [],
};

/** The queue of a fleet. */
export interface Overview {
  /** Ids of the jobs that wait, in the order of their turns. */
  readonly waiting: string[];
  /** Ids of the jobs that run, in the order in which they began. */
  readonly running: string[];
  /** How many wait. */
  readonly depth: number;
  /** How long jobs take, in seconds, by model. */
  readonly seconds: Map<string, number>;
}

/** What ids are made of: PostgreSQL would refuse texts that hold NUL. */
const ID = /^[\w.-]{1,200}$/;

/** Milliseconds since 1970 by the clock of the database: those of many machines differ. */
export const NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/** Which jobs are those of requests that are sent again. */
const IS_REPEATED = `status NOT IN ('failed', 'cancelled') AND created_at > ${NOW} - ${REPEAT_MS}`;

/** Records of jobs in PostgreSQL. */
export class PostgresJobStore implements JobStore {
  readonly #database: Database;
  readonly #known: KnownRecords | undefined;
  readonly #reader: RecordReader;

  /**
   * @param known keeps what was read; all is read each time when left out
   */
  constructor(database: Database, known?: KnownRecords) {
    this.#database = database;
    this.#known = known;
    this.#reader = new RecordReader(database, known);
  }

  /** See {@link JobStore.insert}. */
  async insert(job: NewRecord): Promise<void> {
    await this.enqueue({ ...ANYBODYS, ...job }, Infinity);
  }

  /**
   * Adds a queued job with the files that it needs, and gives it its turn.
   *
   * @param room how many jobs may wait beside those that could begin at once
   * @param places how many jobs can run at once; none when left out
   * @returns whether there was room for another job of that client
   * @throws {RepeatedRequestError} when another job has its key
   */
  async enqueue(job: QueuedRecord, room: number, places = 0): Promise<boolean> {
    const { id, kind, client, model = null, loras, priority, front, isReady } = job;
    const { key = null, body = null } = job.requestKey ?? {};
    const queued = await this.#database.transaction(async (sql) => {
      // An attempt before this one may have come through without an answer.
      const [before] = await sql`SELECT
          EXISTS (SELECT 1 FROM denoise_jobs WHERE id = ${id}) AS is_there,
          count(*) FILTER (WHERE status = 'in_progress') AS running,
          count(*) FILTER (WHERE status = 'queued') AS waiting,
          count(*) FILTER (WHERE status = 'queued' AND client = ${client}) AS own
        FROM denoise_jobs WHERE status IN ('queued', 'in_progress')`;
      if (before?.["is_there"]) return true;
      const count = (name: string) => Number(before?.[name] ?? 0);
      const depth = count("waiting") - Math.max(0, places - count("running"));
      if (!hasRoom(count("own"), depth, room)) return false;
      // One that has ended badly, or long ago, gives its key up.
      if (key !== null) {
        await sql`UPDATE denoise_jobs SET request_key = NULL
          WHERE request_key = ${key} AND NOT (${sql.unsafe(IS_REPEATED)})`;
      }
      await writeInputs(sql, id, job.inputs);
      const turn = await takeTurn(sql, job);
      await sql`
        INSERT INTO denoise_jobs (id, kind, status, created_at, request, summary, client, model,
          loras, priority, memory, turn, front, is_ready, request_key, request_body)
        VALUES (${id}, ${kind}, 'queued', ${sql.unsafe(NOW)}, ${JSON.stringify(job.request)},
          ${toJson(job.summary)}, ${client}, ${model}, ${texts(sql, loras)},
          ${priority}, ${Math.ceil(job.memory)}, ${turn}, ${front}, ${isReady}, ${key}, ${body})`;
      return true;
    }, PATIENCE_MS).catch(async (error) => {
      if (error.constraint_name !== "denoise_jobs_by_request" || key === null) throw error;
      return await this.findRepeated(key);
    });
    if (typeof queued === "boolean") return queued;
    // The job that had the key a moment ago has just ended badly.
    if (queued === undefined) return await this.enqueue(job, room, places);
    throw new RepeatedRequestError(queued);
  }

  /** See {@link JobStore.findRepeated}. */
  async findRepeated(key: string): Promise<RepeatedRequest | undefined> {
    const [row] = await this.#database.use((sql) =>
      sql`SELECT id, request_body FROM denoise_jobs
        WHERE request_key = ${key} AND ${sql.unsafe(IS_REPEATED)}`
    );
    return row && { id: String(row["id"]), body: String(row["request_body"]) };
  }

  /** See {@link JobStore.update}. */
  async update(id: string, change: JobChange): Promise<boolean> {
    if (Object.keys(change).length === 0) return true;
    const { count } = await this.#database.use(
      (sql) => sql`UPDATE denoise_jobs SET ${sql(changesOf(sql, change))} WHERE id = ${id}`,
      PATIENCE_MS,
    );
    this.#known?.forget(id);
    return count > 0;
  }

  /** See {@link JobStore.get}. All that are asked for at once are read at once. */
  get(id: string, { mayBeOld = false } = {}): Promise<JobRecord | undefined> {
    return ID.test(id) ? this.#reader.get(id, mayBeOld) : Promise.resolve(undefined);
  }

  /** See {@link JobStore.list}. */
  async list(
    { kind, statuses, after, limit, order = "desc" }: JobFilter = {},
  ): Promise<JobEntry[]> {
    if (after !== undefined && !ID.test(after)) return [];
    const rows = await this.#database.use((sql) => {
      const conditions: Fragment[] = [sql`true`];
      if (kind !== undefined) conditions.push(sql`kind = ${kind}`);
      if (statuses !== undefined) {
        conditions.push(sql`status = ANY(${texts(sql, statuses)})`);
      }
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

  /** See {@link JobStore.expired}. */
  async expired(
    { ms, unfinished }: RecordBounds,
    limit: number,
  ): Promise<Pick<JobEntry, "id" | "result">[]> {
    const rows = await this.#database.use((sql) => {
      const isUnfinished = sql`status IN ('failed', 'cancelled')`;
      return sql`SELECT ${sql.unsafe(LISTED)} FROM denoise_jobs
        WHERE ended_at < ${sql.unsafe(NOW)} - ${Math.min(ms, Number.MAX_SAFE_INTEGER)}::bigint
          OR (${isUnfinished} AND ended_at < (SELECT ended_at FROM denoise_jobs
            WHERE ${isUnfinished} AND ended_at IS NOT NULL
            ORDER BY ended_at DESC LIMIT 1 OFFSET ${unfinished - 1}))
        ORDER BY ended_at LIMIT ${limit}`;
    });
    return rows.map(toEntry);
  }

  /** See {@link JobStore.delete}. */
  async delete(id: string): Promise<void> {
    await this.#database.use((sql) => sql`DELETE FROM denoise_jobs WHERE id = ${id}`, PATIENCE_MS);
    this.#known?.forget(id);
  }

  /** Asks the worker that has a job to cancel it; nothing happens when the job has ended. */
  async requestCancel(id: string): Promise<void> {
    await this.#database.use((sql) =>
      sql`WITH asked AS (
          UPDATE denoise_jobs SET cancel = true
          WHERE id = ${id} AND status IN ('queued', 'in_progress') RETURNING id)
        SELECT pg_notify('denoise_jobs', id || ' cancel') FROM asked`, PATIENCE_MS);
    this.#known?.forget(id);
  }

  /** Ends a job that waits and was asked to be cancelled. */
  async cancelWaiting(id: string): Promise<void> {
    await this.#database.use(
      (sql) =>
        sql`UPDATE denoise_jobs SET status = 'cancelled', ended_at = ${sql.unsafe(NOW)}
        WHERE id = ${id} AND status = 'queued'`,
      PATIENCE_MS,
    );
    this.#known?.forget(id);
  }

  /**
   * Lets workers take a job.
   *
   * @param change what to record of what was done before
   */
  async makeReady(id: string, change: JobChange): Promise<void> {
    await this.#database.use(
      (sql) =>
        sql`UPDATE denoise_jobs SET ${sql({ ...changesOf(sql, change), is_ready: true })}
        WHERE id = ${id}`,
      PATIENCE_MS,
    );
    this.#known?.forget(id);
  }

  /**
   * Where jobs are.
   *
   * @returns statuses by id; none for those that are not there
   */
  async statuses(ids: readonly string[]): Promise<Map<string, JobStatus>> {
    const rows = await this.#database.use((sql) =>
      sql`SELECT id, status FROM denoise_jobs WHERE id = ANY(${texts(sql, ids)})`
    );
    return new Map(rows.map((row) => [String(row["id"]), String(row["status"]) as JobStatus]));
  }

  /**
   * The queue of the fleet.
   *
   * @param timed ended jobs that tell how long one takes
   * @returns what waits in its order, what runs, how many wait, and seconds of a result by model
   */
  async overview(limit: number, timed: number): Promise<Overview> {
    const [jobs, [depth], times] = await this.#database.use((sql) =>
      Promise.all([
        sql`SELECT id, status FROM denoise_jobs WHERE status IN ('queued', 'in_progress')
          ORDER BY status, started_at, priority DESC, turn, seq LIMIT ${limit}`,
        sql`SELECT count(*) AS count FROM denoise_jobs WHERE status = 'queued'`,
        sql`SELECT model, avg(ended_at - started_at) / 1000 AS seconds FROM (
            SELECT model, ended_at, started_at FROM denoise_jobs
            WHERE ended_at IS NOT NULL AND status = 'completed' ORDER BY ended_at DESC LIMIT ${timed}
          ) AS ended GROUP BY model`,
      ])
    );
    const ids = (status: JobStatus) =>
      jobs.filter((row) => row["status"] === status).map((row) => String(row["id"]));
    return {
      waiting: ids("queued"),
      running: ids("in_progress"),
      depth: Number(depth?.["count"] ?? 0),
      seconds: new Map(times.map((row) => [String(row["model"]), Number(row["seconds"])])),
    };
  }

  /**
   * Jobs whose worker has let its lease run out wait again, or fail where
   * that is not the first time. What waits and was to be cancelled by a server that died then is cancelled. Any member
   * of the fleet may call it at any time.
   */
  async reap(): Promise<void> {
    await this.#database.use((sql) =>
      sql`UPDATE denoise_jobs SET status = 'cancelled', ended_at = ${sql.unsafe(NOW)}
        WHERE id IN (SELECT id FROM denoise_jobs WHERE status = 'queued' AND cancel
          LIMIT ${MAX_REAPED} FOR UPDATE SKIP LOCKED)`
    );
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
  }

  /**
   * Jobs that their server took and did not make ready before it died; they are this server's then.
   *
   * @param deadAfterMs how long a server may be silent, in milliseconds
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

  /** Jobs that have ended and of which nobody was told; each is given to one caller. */
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
}

/**
 * The columns that a change of a job sets. Times are those of the database's clock: they say how long ago it was here.
 */
export function changesOf(
  sql: Sql,
  change: JobChange,
): Record<string, string | number | null | Fragment> {
  const columns: Record<string, string | number | null | Fragment> = columnsOf(change);
  for (const name of ["started_at", "ended_at"]) {
    const time = columns[name];
    if (typeof time !== "number") continue;
    columns[name] = sql`${sql.unsafe(NOW)} - ${Math.max(0, Date.now() - time)}::bigint`;
  }
  return columns;
}

/** The turn of a new job; its client's next one is kept. */
async function takeTurn(
  sql: Sql,
  { client, priority, seconds }: Pick<QueuedRecord, "client" | "priority" | "seconds">,
): Promise<number> {
  await sql`INSERT INTO denoise_clients VALUES (${client}, ${priority}) ON CONFLICT DO NOTHING`;
  const [kept] = await sql`SELECT next FROM denoise_clients
    WHERE client = ${client} AND priority = ${priority} FOR UPDATE`;
  const taken = await sql`SELECT turn FROM denoise_jobs
    WHERE priority = ${priority} AND taken IS NOT NULL ORDER BY taken DESC LIMIT ${CLOCK_JOBS}`;
  const [most] = taken.length > 0 ? [] : await sql`SELECT max(next) AS next FROM denoise_clients
    WHERE priority = ${priority}`;
  const clock = clockOf(taken.map((row) => Number(row["turn"])), Number(most?.["next"] ?? 0));
  const next = kept?.["next"] as number | null;
  const given = giveTurn(next ?? undefined, clock, seconds);
  await sql`UPDATE denoise_clients SET next = ${given.next}
    WHERE client = ${client} AND priority = ${priority}`;
  return given.turn;
}
