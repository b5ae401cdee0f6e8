/** Records of jobs in PostgreSQL, which many servers share. */

import type { Fragment, Sql } from "postgres";
import {
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
} from "../server/jobs/job_store.ts";
import { hasRoom } from "../server/fair_share.ts";
import { columnsOf, LISTED, toEntry, toJson, toRecord } from "../server/jobs/sqlite_file.ts";
import type { Bell } from "./bell.ts";
import type { Database } from "./database.ts";
import { KnownRecords, type Read } from "./known_records.ts";
import { CLOCK_JOBS, clockOf, giveTurn } from "./policy.ts";
import { type InputFile, writeInputs } from "./requests.ts";

/** How long a record may wait for a database that is not at hand, in milliseconds. */
const PATIENCE_MS = 3000;
/** Most jobs that a front takes in one go to look after them. */
const MAX_TAKEN = 100;
/** Ended jobs that tell how long one takes. */
const TIMED_JOBS = 20;

interface QueuedRecord extends NewRecord {
  readonly client?: string;
  readonly model?: string | undefined;
  /** LoRAs of the job with their strengths, as comparable texts. */
  readonly loras?: readonly string[];
  readonly priority?: number;
  /** Bytes that a worker's device must have at least; 0 where that is not known. */
  readonly memory?: number;
  /** How long it is expected to take, in seconds. */
  readonly seconds?: number;
  readonly front?: string;
  /** Whether the job waits for nothing but its turn. */
  readonly isReady?: boolean;
  readonly inputs?: readonly InputFile[];
}

export interface Overview {
  /** Ids of the jobs that wait, in the order of their turns. */
  readonly waiting: string[];
  /** Ids of the jobs that run, in the order in which they began. */
  readonly running: string[];
  readonly depth: number;
  /** How long jobs take, in seconds, by model. */
  readonly seconds: ReadonlyMap<string, number>;
}

/** What ids are made of: PostgreSQL would refuse texts that hold NUL. */
const ID = /^[\w.-]{1,200}$/;

/** Which jobs are those of requests that are sent again. */
const IS_REPEATED =
  `status NOT IN ('failed', 'cancelled') AND created_at > denoise_now() - ${REPEAT_MS}`;

export class PostgresJobStore implements JobStore {
  readonly #database: Database;
  readonly #known: KnownRecords;

  /** @param bell tells of changes: records that were read are kept until then; they are read each time by default */
  constructor(database: Database, bell?: Bell) {
    this.#database = database;
    this.#known = new KnownRecords((ids) => this.#read(ids), bell);
  }

  async insert(job: NewRecord): Promise<void> {
    await this.enqueue(job, Infinity);
  }

  /**
   * Adds a queued job with the files that it needs, and gives it its turn.
   *
   * @param room how many jobs may wait beside those that could begin at once
   * @param places how many jobs can run at once; none by default
   * @returns whether there was room for another job of that client
   * @throws {RepeatedRequestError} when another job has its key
   */
  async enqueue(job: QueuedRecord, room: number, places = 0): Promise<boolean> {
    const { id, kind, client = "", model = null, priority = 0, front = "", isReady = true } = job;
    const { key = null, body = null } = job.requestKey ?? {};
    const queued = await this.#database.transaction(async (sql) => {
      // An attempt before this one may have come through without an answer.
      const [before] = await sql`SELECT
          EXISTS (SELECT 1 FROM denoise_jobs WHERE id = ${id}) AS is_there,
          count(*) FILTER (WHERE status = 'in_progress') AS running,
          count(*) FILTER (WHERE status = 'queued') AS waiting,
          count(*) FILTER (WHERE status = 'queued' AND client = ${client}) AS own
        FROM denoise_jobs WHERE status IN ('queued', 'in_progress')`;
      const { is_there, running, waiting, own } = before!;
      if (is_there) return true;
      if (!hasRoom(own, waiting - Math.max(0, places - running), room)) return false;
      // One that has ended badly, or long ago, gives its key up.
      if (key !== null) {
        await sql`UPDATE denoise_jobs SET request_key = NULL
          WHERE request_key = ${key} AND NOT (${sql.unsafe(IS_REPEATED)})`;
      }
      await writeInputs(sql, id, job.inputs ?? []);
      const turn = await takeTurn(sql, client, priority, job.seconds ?? 1);
      await sql`
        INSERT INTO denoise_jobs (id, kind, status, request, summary, client, model, loras,
          priority, memory, turn, front, is_ready, request_key, request_body)
        VALUES (${id}, ${kind}, 'queued', ${JSON.stringify(job.request)}, ${toJson(job.summary)},
          ${client}, ${model}, ${job.loras ?? []}, ${priority},
          ${Math.ceil(job.memory ?? 0)}, ${turn}, ${front}, ${isReady}, ${key}, ${body})`;
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

  async findRepeated(key: string): Promise<RepeatedRequest | undefined> {
    const [row] = await this.#database.use((sql) =>
      sql<RepeatedRequest[]>`SELECT id, request_body AS body FROM denoise_jobs
        WHERE request_key = ${key} AND ${sql.unsafe(IS_REPEATED)}`
    );
    return row;
  }

  async update(id: string, change: JobChange, expected?: unknown): Promise<boolean> {
    return Object.keys(change).length === 0 || await this.#change(id, change, {}, expected);
  }

  get(id: string, { mayBeOld = false } = {}): Promise<JobRecord | undefined> {
    return ID.test(id) ? this.#known.get(id, mayBeOld) : Promise.resolve(undefined);
  }

  async list(
    { kind, statuses, after, limit, order = "desc" }: JobFilter = {},
  ): Promise<JobEntry[]> {
    if (after !== undefined && !ID.test(after)) return [];
    const rows = await this.#database.use((sql) => {
      const conditions: Fragment[] = [sql`true`];
      if (kind !== undefined) conditions.push(sql`kind = ${kind}`);
      if (statuses !== undefined) conditions.push(sql`status = ANY(${statuses})`);
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

  async counts(): Promise<JobCount[]> {
    return await this.#database.run<
      JobCount[]
    >`SELECT kind, status, count(*) FROM denoise_jobs GROUP BY kind, status`;
  }

  async expired(
    { ms, unfinished }: RecordBounds,
    limit: number,
  ): Promise<Pick<JobEntry, "id" | "result">[]> {
    const rows = await this.#database.use((sql) => {
      const isUnfinished = sql`status IN ('failed', 'cancelled')`;
      return sql`SELECT ${sql.unsafe(LISTED)} FROM denoise_jobs
        WHERE ended_at < denoise_now() - ${Math.min(ms, Number.MAX_SAFE_INTEGER)}::bigint
          OR (${isUnfinished} AND ended_at < (SELECT ended_at FROM denoise_jobs
            WHERE ${isUnfinished} AND ended_at IS NOT NULL
            ORDER BY ended_at DESC LIMIT 1 OFFSET ${unfinished - 1}))
        ORDER BY ended_at LIMIT ${limit}`;
    });
    return rows.map(toEntry);
  }

  async delete(id: string): Promise<boolean> {
    const { count } = await this.#database.use(
      (sql) => sql`DELETE FROM denoise_jobs WHERE id = ${id}`,
      PATIENCE_MS,
    );
    this.#known.forget(id);
    return count > 0;
  }

  /** Cancels a job that waits, and asks the worker of one that runs to do that. */
  async requestCancel(id: string): Promise<void> {
    await this.#database.use((sql) =>
      sql`WITH asked AS (
          UPDATE denoise_jobs SET cancel = true, status = status
          WHERE id = ${id} AND status IN ('queued', 'in_progress') RETURNING id)
        SELECT pg_notify('denoise_jobs', id || ' cancel') FROM asked`, PATIENCE_MS);
    this.#known.forget(id);
  }

  /** Lets workers take a job, and records what was done before. */
  async makeReady(id: string, change: JobChange): Promise<void> {
    await this.#change(id, change, { is_ready: true });
  }

  async statuses(ids: readonly string[]): Promise<Map<string, JobStatus>> {
    const rows = await this.#database.run`
      SELECT id, status FROM denoise_jobs WHERE id = ANY(${ids})`;
    return new Map(rows.map(({ id, status }) => [id, status]));
  }

  async overview(limit: number): Promise<Overview> {
    const [jobs, [queue], times] = await this.#database.use((sql) =>
      Promise.all([
        sql`SELECT id, status FROM denoise_jobs WHERE status IN ('queued', 'in_progress')
          ORDER BY status, started_at, priority DESC, turn, seq LIMIT ${limit}`,
        sql`SELECT count(*) AS depth FROM denoise_jobs WHERE status = 'queued'`,
        sql`SELECT model, avg(ended_at - started_at)::double precision / 1000 AS seconds FROM (
            SELECT model, ended_at, started_at FROM denoise_jobs WHERE status = 'completed'
            ORDER BY ended_at DESC LIMIT ${TIMED_JOBS}) AS ended GROUP BY model`,
      ])
    );
    const ids = (wanted: JobStatus) =>
      jobs.filter(({ status }) => status === wanted).map(({ id }) => id);
    return {
      waiting: ids("queued"),
      running: ids("in_progress"),
      depth: queue!["depth"],
      seconds: new Map(times.map(({ model, seconds }) => [String(model), seconds])),
    };
  }

  /** Takes over the jobs whose server died, after a silence in milliseconds, before it made them ready. */
  async adopt(front: string, deadAfterMs: number): Promise<JobRecord[]> {
    const rows = await this.#database.run`UPDATE denoise_jobs SET front = ${front} WHERE id IN (
        SELECT id FROM denoise_jobs WHERE status = 'queued' AND NOT is_ready
          AND NOT EXISTS (SELECT 1 FROM denoise_members m WHERE m.id = denoise_jobs.front
            AND m.seen_at > clock_timestamp() - make_interval(secs => ${deadAfterMs / 1000}))
        ORDER BY seq LIMIT ${MAX_TAKEN} FOR UPDATE SKIP LOCKED) RETURNING *`;
    return rows.map(toRecord);
  }

  /** Jobs that have ended and of which nobody was told; each is given to one caller. */
  async untold(): Promise<JobRecord[]> {
    const rows = await this.#database.run`UPDATE denoise_jobs SET is_told = true WHERE id IN (
        SELECT id FROM denoise_jobs WHERE NOT is_told AND ended_at IS NOT NULL
        ORDER BY seq LIMIT ${MAX_TAKEN} FOR UPDATE SKIP LOCKED) RETURNING *`;
    return rows.map(toRecord);
  }

  /** Jobs are the fleet's, and go on. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  async #change(
    id: string,
    change: JobChange,
    others: Columns = {},
    expected?: unknown,
  ): Promise<boolean> {
    const { count } = await this.#database.use(
      (sql) =>
        sql`UPDATE denoise_jobs SET ${sql({ ...changesOf(sql, change), ...others })}
          WHERE id = ${id} ${
          expected === undefined ? sql`` : sql`AND result = ${toJson(expected)}`
        }`,
      PATIENCE_MS,
    );
    this.#known.forget(id);
    return count > 0;
  }

  async #read(ids: readonly string[]): Promise<Read[]> {
    const rows = await this.#database.run`SELECT * FROM denoise_jobs WHERE id = ANY(${ids})`;
    return rows.map((row) => {
      const { error_status, request, summary, result } = row;
      const record = toRecord(row);
      const length = [request, summary, result].reduce((sum, text) => sum + (text?.length ?? 0), 0);
      const isFailure = typeof error_status === "number";
      return [isFailure ? Object.assign(record, { errorStatus: error_status }) : record, length];
    });
  }
}

type Columns = Record<string, string | number | boolean | null | Fragment>;

export function changesOf(sql: Sql, change: JobChange): Columns {
  const columns: Columns = columnsOf(change);
  if (change.errorStatus !== undefined) columns["error_status"] = change.errorStatus;
  for (const name of ["started_at", "ended_at"]) {
    const time = columns[name];
    if (typeof time !== "number") continue;
    columns[name] = sql`denoise_now() - ${Math.max(0, Date.now() - time)}::bigint`;
  }
  return columns;
}

/** The turn of a new job; its client's next one is kept. */
async function takeTurn(
  sql: Sql,
  client: string,
  priority: number,
  seconds: number,
): Promise<number> {
  const [kept] = await sql`INSERT INTO denoise_clients VALUES (${client}, ${priority})
    ON CONFLICT (client, priority) DO UPDATE SET client = EXCLUDED.client RETURNING next`;
  const taken = await sql`SELECT turn FROM denoise_jobs
    WHERE priority = ${priority} AND taken IS NOT NULL ORDER BY taken DESC LIMIT ${CLOCK_JOBS}`;
  const [most] = taken.length > 0 ? [] : await sql`SELECT max(next) AS next FROM denoise_clients
    WHERE priority = ${priority}`;
  const clock = clockOf(taken.map(({ turn }) => turn), most?.["next"] ?? 0);
  const { turn, next } = giveTurn(kept?.["next"] ?? undefined, clock, seconds);
  await sql`UPDATE denoise_clients SET next = ${next}
    WHERE client = ${client} AND priority = ${priority}`;
  return turn;
}
