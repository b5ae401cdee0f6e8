/**
 * Records that a front has read and that have not changed since, so that clients that ask again and again for the same
 * jobs cost the database nothing. What changes is told by the database ({@link Bell}); while nobody tells, nothing is known.
 *
 * @module
 */

import { LRUCache } from "lru-cache";
import { isEnd } from "../jobs/job.ts";
import type { JobRecord } from "../jobs/job_store.ts";
import type { Bell } from "./bell.ts";

/** Most records that are kept. */
const MAX_RECORDS = 4096;
/** Most characters of their requests and results, about. */
const MAX_LENGTH = 32 * 2 ** 20;
/**
 * For how long what is known may be old where nothing is told, in milliseconds: progress is recorded less often, and a
 * connection may be dead without a word.
 */
const OLD_MS = { in_progress: 500, queued: 5000, ended: 60_000 };

/** See the module. */
export class KnownRecords {
  readonly #bell: Pick<Bell, "isUp">;
  readonly #records = new LRUCache<string, JobRecord>({
    max: MAX_RECORDS,
    maxSize: MAX_LENGTH,
  });
  /** Ids that changed while records were read, for each reading. */
  readonly #readings = new Set<Set<string>>();

  /** @param bell tells of changes; not started yet */
  constructor(bell: Pick<Bell, "isUp" | "on" | "onUp">) {
    this.#bell = bell;
    bell.on("denoise_jobs", (news) => this.forget(news.split(" ", 1)[0]!));
    // What happened meanwhile was not told.
    bell.onUp(() => this.#records.clear());
  }

  /**
   * A record as it is now.
   *
   * @param id of the job
   * @returns undefined where it must be read
   */
  get(id: string): JobRecord | undefined {
    return this.#bell.isUp ? this.#records.get(id) : undefined;
  }

  /**
   * Forgets what is about to change, or has.
   *
   * @param id of the job
   */
  forget(id: string): void {
    this.#records.delete(id);
    for (const changed of this.#readings) changed.add(id);
  }

  /**
   * Reads records, and keeps those that do not change meanwhile.
   *
   * @param read gives records with about how many characters each has
   * @returns the same
   */
  async keep<T extends Iterable<readonly [record: JobRecord, length: number]>>(
    read: () => Promise<T>,
  ): Promise<T> {
    const changed = new Set<string>();
    const wasUp = this.#bell.isUp;
    this.#readings.add(changed);
    try {
      const records = await read();
      for (const [record, length] of wasUp ? records : []) {
        if (changed.has(record.id)) continue;
        const size = length + 500;
        const { status } = record;
        const ttl = OLD_MS[isEnd(status) ? "ended" : status as "queued" | "in_progress"];
        this.#records.set(record.id, record, { size, ttl });
      }
      return records;
    } finally {
      this.#readings.delete(changed);
    }
  }
}
