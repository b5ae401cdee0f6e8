/** How far jobs are, and their results before all are finished, for clients that watch at any server; a crash of the database ends it. */

import { setTimeout as delay } from "node:timers/promises";
import type { JobEvent } from "../server/jobs/job.ts";
import type { StoredFile } from "../server/storage/result_storage.ts";
import type { Database } from "./database.ts";

/** Shortest time between two news of a job's progress, in milliseconds. */
const PROGRESS_MS = 200;

type Progress = JobEvent & { type: "progress" };

/** Columns of a job's row; others stay as they are. */
interface LiveRow {
  readonly progress?: string;
  readonly preview?: Uint8Array;
  /** The preview in words. */
  readonly about?: string;
  /** Finished results by their index. */
  readonly outputs?: string;
}

export class Live {
  readonly #database: Database;
  /** Progress that is still to be told, of jobs of which something was told a moment ago. */
  readonly #next = new Map<string, Progress | undefined>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** Tells of a job. Progress that is overtaken is dropped, and so is everything while the database is away. */
  tell(id: string, event: JobEvent): void {
    if (event.type === "progress") {
      const isBusy = this.#next.has(id);
      this.#next.set(id, event);
      if (!isBusy) void this.#tellProgress(id);
    } else if (event.type === "preview") {
      const { type: _, bytes: preview, ...about } = event;
      void this.#write(id, { preview, about: JSON.stringify(about) }, "preview");
    } else if (event.type === "output" && event.file) {
      // Files are where all members find them.
      const { index, file } = event;
      const outputs = JSON.stringify({ [index]: file });
      void this.#write(id, { outputs }, `output ${JSON.stringify({ index, file })}`);
    }
  }

  /** What was told of a job last: its progress, its latest preview, and its finished results. */
  async read(id: string): Promise<JobEvent[]> {
    const [row] = await this.#database.run`
      SELECT progress, preview, about, outputs FROM denoise_live WHERE job = ${id}`;
    const { progress, preview, about, outputs } = row ?? {};
    const files = Object.entries<StoredFile>(outputs ?? {});
    const latest: JobEvent = {
      type: "preview",
      bytes: new Uint8Array(preview ?? []),
      ...JSON.parse(about ?? "{}"),
    };
    return [
      ...progress ? [{ type: "progress", ...JSON.parse(progress) } as Progress] : [],
      ...about ? [latest] : [],
      ...files.map(([index, file]): JobEvent => ({ type: "output", index: Number(index), file })),
    ];
  }

  async #tellProgress(id: string): Promise<void> {
    for (let event = this.#next.get(id); event; event = this.#next.get(id)) {
      this.#next.set(id, undefined);
      const { type: _, ...progress } = event;
      const text = JSON.stringify(progress);
      await Promise.all([this.#write(id, { progress: text }, text), delay(PROGRESS_MS)]);
    }
    this.#next.delete(id);
  }

  async #write(id: string, row: LiveRow, news: string): Promise<void> {
    const { progress = null, preview = null, about = null, outputs = null } = row;
    await this.#database.run`WITH told AS (
        INSERT INTO denoise_live AS live (job, progress, preview, about, outputs)
        SELECT id, ${progress}, ${preview}::bytea, ${about}, ${outputs}::text::jsonb
        FROM denoise_jobs WHERE id = ${id} AND status = 'in_progress'
        ON CONFLICT (job) DO UPDATE SET
          progress = coalesce(EXCLUDED.progress, live.progress),
          preview = coalesce(EXCLUDED.preview, live.preview),
          about = coalesce(EXCLUDED.about, live.about),
          outputs = coalesce(live.outputs || EXCLUDED.outputs, live.outputs, EXCLUDED.outputs)
        RETURNING job)
      SELECT pg_notify('denoise_live', job || ' ' || ${news}) FROM told`.catch(() => {});
  }
}
