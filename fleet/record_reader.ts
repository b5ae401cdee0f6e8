/**
 * Records of jobs as clients that ask again and again get them: all that are asked for at once are read at once, and
 * where the database takes its time, what was seen last is shown.
 */

import type { JobRecord } from "../server/jobs/job_store.ts";
import { toRecord } from "../server/jobs/job_rows.ts";
import { awayError, type Database, isAway, texts } from "./database.ts";
import type { KnownRecords } from "./known_records.ts";

/** Most readings of records at a time; what is asked for meanwhile is read together after one of them. */
const MAX_READINGS = 4;
/** After what time the record that was seen last is shown in place of the one that is being read, in milliseconds. */
const GLANCE_MS = 50;
/** The time after which a record is shown that is known to have changed: others may have told its client. */
const CHANGED_MS = 1000;
/** How long an unknown record may take while nobody tells of changes, in milliseconds. */
const SOON_MS = 2000;

/** Reads records of jobs from the database. */
export class RecordReader {
  readonly #database: Database;
  readonly #known: KnownRecords | undefined;
  /** Ids that were asked for and are about to be read, together. */
  #asked = new Map<string, PromiseWithResolvers<JobRecord | undefined>>();
  #isAboutToRead = false;
  /** When each reading that goes on began. */
  readonly #readings = new Set<number>();
  /** Whether the last reading that ended found no database. */
  #isAway = false;

  /**
   * Reads nothing yet.
   *
   * @param known keeps what was read; all is read each time when left out
   */
  constructor(database: Database, known: KnownRecords | undefined) {
    this.#database = database;
    this.#known = known;
  }

  /**
   * Gives the record of a job.
   *
   * @param mayBeOld whether the record that was seen last will do, where the database takes its time
   * @throws {Error} when the database is not at hand
   */
  get(id: string, mayBeOld: boolean): Promise<JobRecord | undefined> {
    const known = this.#known?.get(id);
    if (known) return Promise.resolve(known);
    return mayBeOld && this.#known ? this.#glance(id, this.#known) : this.#read(id);
  }

  #read(id: string): Promise<JobRecord | undefined> {
    const asked = this.#asked.get(id) ?? Promise.withResolvers();
    this.#asked.set(id, asked);
    this.#readSoon();
    return asked.promise;
  }

  /** A record as it is, or was a moment ago where it takes a while to say. */
  async #glance(id: string, known: KnownRecords): Promise<JobRecord | undefined> {
    const reading = this.#read(id);
    reading.catch(() => {});
    const [since = performance.now()] = this.#readings;
    const lastMs = known.hasChanged(id) ? CHANGED_MS : GLANCE_MS;
    const glanceMs = this.#isAway ? 0 : lastMs - (performance.now() - since);
    const patience = known.last(id) ? glanceMs : known.isTold ? Infinity : SOON_MS;
    try {
      const [isRead, record] = await within(patience, reading);
      if (isRead) return record;
    } catch (error) {
      const last = isAway(error) ? known.last(id) : undefined;
      if (!last) throw error;
      return last;
    }
    const last = known.last(id);
    if (last) return last;
    if (!known.isTold) throw awayError();
    return await reading;
  }

  #readSoon(): void {
    const most = this.#known?.isTold === false ? 1 : MAX_READINGS;
    if (this.#isAboutToRead || this.#asked.size === 0 || this.#readings.size >= most) return;
    this.#isAboutToRead = true;
    setTimeout(() => void this.#readAsked());
  }

  async #readAsked(): Promise<void> {
    const asked = this.#asked;
    const since = performance.now();
    this.#isAboutToRead = false;
    this.#asked = new Map();
    this.#readings.add(since);
    try {
      const ids = [...asked.keys()];
      const read = async () => {
        const rows = await this.#database.use((sql) =>
          sql`SELECT * FROM denoise_jobs WHERE id = ANY(${texts(sql, ids)})`
        );
        return rows.map((row) => [toFleetRecord(row), lengthOf(row)] as const);
      };
      const records = this.#known ? await this.#known.keep(ids, read) : await read();
      const found = new Map(records.map(([record]) => [record.id, record]));
      this.#isAway = false;
      for (const [id, { resolve }] of asked) resolve(found.get(id));
    } catch (error) {
      this.#isAway = isAway(error);
      for (const { reject } of asked.values()) reject(error);
    } finally {
      this.#readings.delete(since);
      this.#readSoon();
    }
  }
}

/** Whether something came within a time in milliseconds, and what. */
async function within<T>(ms: number, coming: Promise<T>): Promise<[true, T] | [false, undefined]> {
  const came = coming.then((value): [true, T] => [true, value]);
  if (ms === Infinity) return await came;
  const late = Promise.withResolvers<[false, undefined]>();
  const timer = setTimeout(() => late.resolve([false, undefined]), Math.max(0, ms));
  try {
    return await Promise.race([came, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** About how many characters of a row's texts grow with what was asked for. */
function lengthOf(row: Record<string, unknown>): number {
  const texts = [row["request"], row["summary"], row["result"]];
  return texts.reduce((sum: number, text) => sum + (typeof text === "string" ? text.length : 0), 0);
}

/** A job, with the HTTP status that it failed with. */
function toFleetRecord(row: Record<string, unknown>): JobRecord {
  const record = toRecord(row);
  const errorStatus = row["error_status"];
  return typeof errorStatus === "number" ? Object.assign(record, { errorStatus }) : record;
}
