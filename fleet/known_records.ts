/**
 * Records that a front has read and that have not changed since, so that clients that ask again and again for the same
 * jobs cost the database nothing. What changes is told by the database ({@link Bell}); while nobody tells, what was known
 * last may be shown for a while, and is read anew as soon as the database answers.
 */

import { LRUCache } from "lru-cache";
import { isEnd } from "../server/jobs/job.ts";
import type { JobRecord } from "../server/jobs/job_store.ts";
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
/** How long a record may be shown after that while it cannot be read, in milliseconds. */
const LAST_MS = 60_000;

/** A record, and when it was read. */
interface Kept {
  readonly record: JobRecord;
  readonly readAt: number;
  /** How long the record needs no other look, in milliseconds. */
  readonly freshMs: number;
  /** Number of the connection that has told of changes since; 0 where there was none. */
  readonly connection: number;
  /** Whether the database has told that the job has changed since. */
  hasChanged: boolean;
}

/** Records of jobs that a server has read before. */
export class KnownRecords {
  readonly #bell: Pick<Bell, "isUp">;
  readonly #records = new LRUCache<string, Kept>({ max: MAX_RECORDS, maxSize: MAX_LENGTH });
  readonly #lastMs: number;
  /** Ids that changed while records were read, for each reading. */
  readonly #readings = new Set<Set<string>>();
  /** Number of the connection that tells. */
  #connections = 1;

  /**
   * @param lastMs for how long a record may be shown that cannot be read, in milliseconds; a minute when left out
   */
  constructor(bell: Pick<Bell, "isUp" | "on" | "onUp">, lastMs = LAST_MS) {
    this.#bell = bell;
    this.#lastMs = lastMs;
    bell.on("denoise_jobs", (news) => {
      const [id = "", status] = news.split(" ");
      if (status === "deleted") this.forget(id);
      else this.#outdate(id);
    });
    // What happened meanwhile was not told: each record is read anew when it is asked for.
    bell.onUp(() => this.#connections++);
  }

  /** Whether changes are told of. */
  get isTold(): boolean {
    return this.#bell.isUp;
  }

  /**
   * A record as it is now.
   *
   * @returns undefined where it must be read
   */
  get(id: string): JobRecord | undefined {
    const kept = this.#records.get(id);
    const isFresh = kept && !kept.hasChanged && this.isTold &&
      kept.connection === this.#connections &&
      performance.now() - kept.readAt < kept.freshMs;
    return isFresh ? kept.record : undefined;
  }

  /**
   * A record as it was when it was seen last, not long ago: for when it cannot be read.
   *
   * @returns undefined where it is not known, or for too long
   */
  last(id: string): JobRecord | undefined {
    return this.#records.get(id)?.record;
  }

  /**
   * Whether it was told that a job has changed since its record was read.
   *
   * @returns false where nothing is known
   */
  hasChanged(id: string): boolean {
    return this.#records.peek(id)?.hasChanged ?? false;
  }

  /** Forgets what this server has changed: nobody who sees that may see what was before. */
  forget(id: string): void {
    this.#outdate(id);
    this.#records.delete(id);
  }

  /**
   * Reads records, and keeps those that do not change meanwhile. While nobody tells of changes, one reading must end
   * before the next begins: else what one has shown could be followed by something older of the other.
   *
   * @param read gives those that there are with about how many characters each has
   */
  async keep<T extends Iterable<readonly [record: JobRecord, length: number]>>(
    ids: readonly string[],
    read: () => Promise<T>,
  ): Promise<T> {
    const changed = new Set<string>();
    const connection = this.#connection;
    const readAt = performance.now();
    this.#readings.add(changed);
    try {
      const records = await read();
      const isWhole = connection === this.#connection;
      const gone = new Set(ids);
      for (const [record, length] of isWhole ? records : []) {
        if (changed.has(record.id)) continue;
        gone.delete(record.id);
        const { status } = record;
        const freshMs = OLD_MS[isEnd(status) ? "ended" : status as "queued" | "in_progress"];
        const kept = { record, readAt, freshMs, connection, hasChanged: false };
        this.#records.set(record.id, kept, {
          size: length + 500,
          ttl: freshMs + this.#lastMs,
        });
      }
      // What is shown of these may be newer than what was kept.
      for (const id of gone) this.#records.delete(id);
      return records;
    } finally {
      this.#readings.delete(changed);
    }
  }

  #outdate(id: string): void {
    const kept = this.#records.peek(id);
    if (kept) kept.hasChanged = true;
    for (const changed of this.#readings) changed.add(id);
  }

  get #connection(): number {
    return this.isTold ? this.#connections : 0;
  }
}
