/** Which waiting job a worker takes, and that it alone has it. */

import type { Sql } from "postgres";
import type { JobRecord } from "../server/jobs/job_store.ts";
import { toRecord } from "../server/jobs/job_rows.ts";
import { type Database, texts } from "./database.ts";
import { choose, type FreeWorker, type WaitingJob } from "./policy.ts";
import { NOW } from "./postgres_store.ts";

/** How long a worker has a job without saying that it lives, in seconds. */
const LEASE_S = 6;

/** Jobs of each model that are looked at, by priority and by turn alone. */
const WINDOW = 16;
/** How often others may be quicker before it is looked anew. */
const MAX_MISSES = 8;

/** A job that is this worker's. */
export interface Claimed {
  /** Record of the job. */
  readonly record: JobRecord;
  /** Whose it is. */
  readonly client: string;
  /** Public name of its model. */
  readonly model: string | undefined;
  /** How often it was begun by workers that then died. */
  readonly deaths: number;
}

/** What a free worker got. */
export interface Claim {
  /** A job; nothing where there is none for it. */
  readonly job?: Claimed;
  /** When there may be one that is left to other workers now, in milliseconds. */
  readonly retryMs?: number;
}

/** Claims the job that the policy chooses. */
export async function claim(
  database: Database,
  member: string,
  worker: FreeWorker,
): Promise<Claim> {
  if (worker.models.length === 0) return {};
  return await database.use(async (sql) => {
    const { jobs, now } = await readWindow(sql, member, worker.models);
    for (let misses = 0; misses < MAX_MISSES; misses++) {
      const { job, passed, retryMs } = choose(jobs, worker, now);
      if (job === undefined) return retryMs === undefined ? {} : { retryMs };
      const row = await take(sql, member, job);
      if (row) {
        if (passed.length > 0) await notePassed(sql, passed, now);
        return {
          job: {
            record: toRecord(row),
            client: String(row["client"]),
            model: row["model"] === null ? undefined : String(row["model"]),
            deaths: Number(row["deaths"]),
          },
        };
      }
      jobs.splice(jobs.findIndex(({ id }) => id === job), 1);
    }
    return { retryMs: 0 };
  });
}

/** The beginning of the queue, for each model. */
async function readWindow(
  sql: Sql,
  member: string,
  models: readonly string[],
): Promise<{ jobs: WaitingJob[]; now: number }> {
  const first = (order: string) =>
    sql`(SELECT * FROM denoise_jobs WHERE status = 'queued' AND is_ready AND NOT cancel
      AND model = wanted.name AND NOT (${member} = ANY(refused_by))
      ORDER BY ${sql.unsafe(order)} LIMIT ${WINDOW})`;
  const rows = await sql`
    SELECT id, turn, priority, job.model, array_to_json(loras)::text AS loras, memory, created_at, deaths, passed_at,
      ${sql.unsafe(NOW)} AS now
    FROM unnest(${texts(sql, models)}) AS wanted(name), LATERAL (
      ${first("priority DESC, turn, seq")} UNION ${first("turn, seq")}) AS job`;
  return {
    now: Number(rows[0]?.["now"] ?? 0),
    jobs: rows.map((row) => ({
      id: String(row["id"]),
      turn: Number(row["turn"]),
      priority: Number(row["priority"]),
      model: String(row["model"]),
      loras: JSON.parse(String(row["loras"])) as string[],
      memory: Number(row["memory"]),
      queuedAt: Number(row["created_at"]),
      attempts: Number(row["deaths"]),
      passedAt: row["passed_at"] === null ? null : Number(row["passed_at"]),
    })),
  };
}

/** The whole row, where no other worker was quicker. */
async function take(sql: Sql, member: string, id: string) {
  const [row] = await sql`UPDATE denoise_jobs SET status = 'in_progress', owner = ${member},
      started_at = ${sql.unsafe(NOW)}, taken = nextval('denoise_taken'),
      lease_until = clock_timestamp() + make_interval(secs => ${LEASE_S})
    WHERE id = (SELECT id FROM denoise_jobs WHERE id = ${id} AND status = 'queued' AND NOT cancel
      FOR UPDATE SKIP LOCKED) RETURNING *`;
  return row;
}

async function notePassed(sql: Sql, ids: readonly string[], now: number): Promise<void> {
  await sql`UPDATE denoise_jobs SET passed_at = ${now}
    WHERE id = ANY(${texts(sql, ids)}) AND passed_at IS NULL AND status = 'queued'`;
}

/** What the fleet says of a worker's jobs. */
export interface Held {
  /** Ids of the jobs that are still its own. */
  readonly ids: ReadonlySet<string>;
  /** Jobs that were asked to be cancelled. */
  readonly cancelled: readonly string[];
}

/** Keeps a worker's jobs for another while. */
export async function renew(database: Database, member: string): Promise<Held> {
  const rows = await database.use((sql) =>
    sql`UPDATE denoise_jobs SET lease_until = clock_timestamp() + make_interval(secs => ${LEASE_S})
      WHERE owner = ${member} AND status = 'in_progress' RETURNING id, cancel`
  );
  return {
    ids: new Set(rows.map(({ id }) => String(id))),
    cancelled: rows.filter((row) => row["cancel"]).map(({ id }) => String(id)),
  };
}

/**
 * Gives a job back that this worker cannot do, for workers that can.
 *
 * @param others ids of all other workers that have its model
 * @returns false where none of them has not refused it, too: it stays this worker's
 */
export async function refuse(
  database: Database,
  member: string,
  id: string,
  others: readonly string[],
): Promise<boolean> {
  const { count } = await database.use((sql) =>
    sql`UPDATE denoise_jobs SET status = 'queued', owner = NULL, started_at = NULL,
        lease_until = NULL, refused_by = refused_by || ${member}
      WHERE id = ${id} AND owner = ${member} AND status = 'in_progress'
        AND NOT (${texts(sql, others)} <@ refused_by)`
  );
  return count > 0;
}
