/** Which waiting job a worker takes, and that it alone has it until it says that it is done, or is silent. */

import type { Sql } from "postgres";
import { toRecord } from "../server/jobs/sqlite_file.ts";
import type { JobChange, JobError, JobRecord } from "../server/jobs/job_store.ts";
import type { Database } from "./database.ts";
import { choose, type FreeWorker, type WaitingJob } from "./policy.ts";
import { changesOf, PostgresJobStore } from "./postgres_store.ts";

/** How long a worker has a job without saying that it lives, in seconds. */
const LEASE_S = 6;
/** Jobs of each model that are looked at, by priority and by turn alone. */
const WINDOW = 16;
/** How often others may be quicker before the queue is read again. */
const MAX_MISSES = 8;
/** Shortest time between two records of a job's progress, in milliseconds. */
const PROGRESS_MS = 1000;
/** Workers that may die while they run a job, before it fails. */
const MAX_DEATHS = 2;
const MAX_REAPED = 100;
/** For so many seconds after its start the database takes nobody for dead: longer than a lease, as nobody could say that it lives. */
const SETTLE_S = 8;

const WORKERS_LOST: JobError = {
  code: "worker_lost",
  message:
    `Cannot finish the job: ${MAX_DEATHS} workers stopped without a word while they ran it; ` +
    "send the request again",
};

export interface Claimed {
  readonly record: JobRecord;
  readonly client: string;
  readonly model: string | undefined;
  /** How often it was begun by workers that then died. */
  readonly deaths: number;
}

export interface Held {
  readonly id: string;
  readonly cancel: boolean;
  /** How long ago it was begun, in milliseconds. */
  readonly age: number;
}

interface Note {
  /** Whether the job is another worker's by now. */
  isLost?: boolean;
  toldAt?: number;
}

/** The jobs of a worker. It changes no job that is another's by now. */
export class Leases extends PostgresJobStore {
  readonly #database: Database;
  readonly #member: string;
  readonly #notes = new Map<string, Note>();

  constructor(database: Database, member: string) {
    super(database);
    this.#database = database;
    this.#member = member;
  }

  /** Claims the job that the policy chooses; where there is none, maybe gives the time in milliseconds after which there is one. */
  async claim(worker: FreeWorker): Promise<Claimed | number | undefined> {
    if (worker.models.length === 0) return undefined;
    return await this.#database.use(async (sql) => {
      const { jobs, now } = await this.#readWindow(sql, worker.models);
      for (let misses = 0; misses < MAX_MISSES; misses++) {
        const { job, passed, retryMs } = choose(jobs, worker, now);
        if (job === undefined) return retryMs;
        const [row] = await sql`UPDATE denoise_jobs SET status = 'in_progress',
            owner = ${this.#member}, started_at = denoise_now(), taken = nextval('denoise_taken'),
            lease_until = clock_timestamp() + make_interval(secs => ${LEASE_S})
          WHERE id = (SELECT id FROM denoise_jobs WHERE id = ${job} AND status = 'queued'
            AND NOT cancel FOR UPDATE SKIP LOCKED) RETURNING *`;
        if (!row) {
          jobs.splice(jobs.findIndex(({ id }) => id === job), 1);
          continue;
        }
        if (passed.length > 0) {
          await sql`UPDATE denoise_jobs SET passed_at = ${now}
            WHERE id = ANY(${passed}) AND passed_at IS NULL AND status = 'queued'`;
        }
        const { client, model, deaths } = row;
        return { record: toRecord(row), client, model: model ?? undefined, deaths };
      }
      return 0;
    });
  }

  /** The beginning of the queue, for each model, and the time. */
  async #readWindow(sql: Sql, models: readonly string[]) {
    const first = (order: string) =>
      sql`(SELECT * FROM denoise_jobs WHERE status = 'queued' AND is_ready AND NOT cancel
        AND model = wanted.name AND NOT (${this.#member} = ANY(refused_by))
        ORDER BY ${sql.unsafe(order)} LIMIT ${WINDOW})`;
    const rows = await sql<(WaitingJob & { now: number })[]>`
      SELECT id, turn, priority, job.model, to_json(loras) AS loras, memory, deaths AS attempts,
        created_at AS "queuedAt", passed_at AS "passedAt", denoise_now() AS now
      FROM unnest(${models}::text[]) AS wanted(name), LATERAL (
        ${first("priority DESC, turn, seq")} UNION ${first("turn, seq")}) AS job`;
    return { jobs: [...rows], now: rows[0]?.now ?? 0 };
  }

  /** Keeps this worker's jobs for another while. */
  async renew(): Promise<Held[]> {
    return await this.#database.run<Held[]>`UPDATE denoise_jobs
      SET lease_until = clock_timestamp() + make_interval(secs => ${LEASE_S})
      WHERE owner = ${this.#member} AND status = 'in_progress'
      RETURNING id, cancel, denoise_now() - started_at AS age`;
  }

  /** Gives a job back to workers that can do it; false where each of `others`, by id, has refused it too: it stays this worker's. */
  async refuse(id: string, others: readonly string[]): Promise<boolean> {
    const { count } = await this.#database.run`
      UPDATE denoise_jobs SET status = 'queued', refused_by = refused_by || ${this.#member}
      WHERE id = ${id} AND owner = ${this.#member} AND status = 'in_progress'
        AND NOT (${others}::text[] <@ refused_by)`;
    return count > 0;
  }

  note(id: string): Note {
    const note = this.#notes.get(id) ?? {};
    this.#notes.set(id, note);
    return note;
  }

  forget(id: string): void {
    this.#notes.delete(id);
  }

  /** False where nobody wants what the job made: it was cancelled or deleted. A result that another worker makes again is wanted. */
  override async update(id: string, change: JobChange): Promise<boolean> {
    const note = this.note(id);
    if (note.isLost || isNoNews(note, change)) return true;
    // A job whose lease ran out while the database was away is still this worker's until another has it.
    const { count } = await this.#database.use((sql) =>
      sql`UPDATE denoise_jobs SET ${sql(changesOf(sql, change))}
        WHERE id = ${id} AND owner = ${this.#member} AND status IN ('in_progress', 'queued')`
    );
    if (count > 0) return true;
    const { status = "cancelled" } = await this.get(id) ?? {};
    note.isLost = status !== "cancelled";
    return note.isLost;
  }
}

/** Whether a change need not be recorded. Clients that watch a job have its progress from {@link Live}. */
function isNoNews(note: Note, change: JobChange): boolean {
  const names = Object.keys(change).join();
  if (names !== "progress") return names === "";
  const now = performance.now();
  const isTooSoon = now - (note.toldAt ?? -Infinity) < PROGRESS_MS;
  if (!isTooSoon) note.toldAt = now;
  return isTooSoon;
}

/** Jobs whose worker has let its lease run out wait again, or fail the second time. Any member may call it at any time. */
export async function reap(database: Database): Promise<void> {
  await database
    .run`UPDATE denoise_jobs AS job SET deaths = deaths + 1, progress = 0, started_at = NULL,
      status = CASE WHEN lost.fails THEN 'failed' ELSE 'queued' END,
      error = CASE WHEN lost.fails THEN ${JSON.stringify(WORKERS_LOST)} END,
      error_status = CASE WHEN lost.fails THEN 503 END,
      ended_at = CASE WHEN lost.fails THEN denoise_now() END
    FROM (
      SELECT id, NOT cancel AND deaths + 1 >= ${MAX_DEATHS} AS fails FROM denoise_jobs
      WHERE status = 'in_progress' AND lease_until < clock_timestamp()
        AND pg_postmaster_start_time() < clock_timestamp() - make_interval(secs => ${SETTLE_S})
      LIMIT ${MAX_REAPED} FOR UPDATE SKIP LOCKED) AS lost
    WHERE job.id = lost.id`;
}
