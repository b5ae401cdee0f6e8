/**
 * How far jobs are, and their results before all are finished: from the worker that makes them to whoever watches,
 * at any server. Nothing of it outlives a crash of the database.
 */

import type { JobEvent } from "../server/jobs/job.ts";
import type { StoredFile } from "../server/storage/result_storage.ts";
import type { Database } from "./database.ts";

/** Shortest time between two news of a job's progress, in milliseconds. */
const PROGRESS_MS = 200;

/** Progress and early results of jobs, from workers to whoever watches. */
export class Live {
  readonly #database: Database;
  /** What is still to be told, and when something was told last. */
  readonly #jobs = new Map<string, { next?: JobEvent & { type: "progress" }; isBusy: boolean }>();

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Tells of a job; progress that is overtaken is dropped, and so is what the database is away for.
   */
  tell(id: string, event: JobEvent): void {
    if (event.type === "progress") this.#progress(id, event);
    else if (event.type === "preview") void this.#preview(id, event).catch(() => {});
    else if (event.type === "output") void this.#output(id, event).catch(() => {});
  }

  /**
   * What was told of a job last.
   *
   * @returns its progress, its latest preview, and what of it is finished
   */
  async read(id: string): Promise<JobEvent[]> {
    const [row] = await this.#database.use((sql) =>
      sql`SELECT progress, preview, about, outputs::text FROM denoise_live WHERE job = ${id}`
    );
    const events: JobEvent[] = [];
    if (typeof row?.["progress"] === "string") {
      events.push({ type: "progress", ...JSON.parse(row["progress"]) });
    }
    if (typeof row?.["about"] === "string") {
      const bytes = new Uint8Array(row["preview"] as Uint8Array);
      events.push({ type: "preview", ...JSON.parse(row["about"]), bytes });
    }
    const outputs = JSON.parse(String(row?.["outputs"] ?? "{}")) as Record<string, StoredFile>;
    for (const [index, file] of Object.entries(outputs)) {
      events.push({ type: "output", index: Number(index), file });
    }
    return events;
  }

  #progress(id: string, event: JobEvent & { type: "progress" }): void {
    const job = this.#jobs.get(id) ?? { isBusy: false };
    this.#jobs.set(id, job);
    job.next = event;
    if (!job.isBusy) void this.#send(id);
  }

  async #send(id: string): Promise<void> {
    const job = this.#jobs.get(id)!;
    const { type: _, ...progress } = job.next!;
    delete job.next;
    job.isBusy = true;
    const text = JSON.stringify(progress);
    const pause = new Promise((resolve) => setTimeout(resolve, PROGRESS_MS));
    await this.#database.use((sql) =>
      sql`WITH told AS (
          INSERT INTO denoise_live (job, progress)
          SELECT ${id}, ${text} FROM denoise_jobs WHERE id = ${id} AND status = 'in_progress'
          ON CONFLICT (job) DO UPDATE SET progress = EXCLUDED.progress RETURNING job)
        SELECT pg_notify('denoise_live', job || ' ' || ${text}) FROM told`
    ).catch(() => {});
    await pause;
    job.isBusy = false;
    if (job.next) await this.#send(id);
    else this.#jobs.delete(id);
  }

  async #preview(id: string, event: JobEvent & { type: "preview" }): Promise<void> {
    const { type: _, bytes, ...about } = event;
    await this.#database.use((sql) =>
      sql`WITH told AS (
          INSERT INTO denoise_live (job, preview, about)
          SELECT ${id}, ${bytes}, ${JSON.stringify(about)} FROM denoise_jobs
          WHERE id = ${id} AND status = 'in_progress'
          ON CONFLICT (job) DO UPDATE SET preview = EXCLUDED.preview, about = EXCLUDED.about
          RETURNING job)
        SELECT pg_notify('denoise_live', job || ' preview') FROM told`
    );
  }

  /** Files are where all members find them. */
  async #output(
    id: string,
    { index, file }: JobEvent & { type: "output" },
  ): Promise<void> {
    if (!file) return;
    const text = JSON.stringify({ index, file });
    await this.#database.use((sql) =>
      sql`WITH told AS (
          INSERT INTO denoise_live (job, outputs)
          SELECT ${id}, ${JSON.stringify({ [index]: file })}::text::jsonb FROM denoise_jobs
          WHERE id = ${id} AND status = 'in_progress'
          ON CONFLICT (job) DO UPDATE
            SET outputs = coalesce(denoise_live.outputs, '{}') || EXCLUDED.outputs
          RETURNING job)
        SELECT pg_notify('denoise_live', job || ' output ' || ${text}) FROM told`
    );
  }
}
