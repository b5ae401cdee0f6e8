/**
 * Records of jobs, for clients that ask again and again. Records that are asked for at the same time are read together.
 * A front keeps those that it has read until the database tells of a change ({@link Bell}). Where the database takes its
 * time or is away, the front may show a record as it saw it last, and never one that is older than what it showed.
 */

import { setTimeout as delay } from "node:timers/promises";
import { LRUCache } from "lru-cache";
import { isEnd, unlessAborted } from "../server/jobs/job.ts";
import type { JobRecord } from "../server/jobs/job_store.ts";
import type { Bell } from "./bell.ts";
import { awayError, isAway } from "./database.ts";
import { coalesced } from "./repeat.ts";

const MAX_RECORDS = 4096;
/** Most characters of their requests and results, about. */
const MAX_LENGTH = 32 * 2 ** 20;
/** For how long a record may be old where nothing is told, in milliseconds: a connection may be dead without a word. */
const OLD_MS = { in_progress: 500, queued: 5000, ended: 60_000 };
/** How long a record may be shown after that while it cannot be read, in milliseconds. */
const LAST_MS = 60_000;
/** After what time the record that was seen last is shown in place of the one that is being read, in milliseconds. */
const GLANCE_MS = 50;
/** The same for a record that is known to have changed: others may have told its client. */
const CHANGED_MS = 1000;
/** How long an unknown record may take while nobody tells of changes, in milliseconds. */
const SOON_MS = 2000;
/** How long a reading may take, in milliseconds: its connection may be dead without a word. */
const READ_MS = 5000;

/** A record, with about how many characters it has. */
export type Read = readonly [record: JobRecord, length: number];

interface Kept {
  readonly record: JobRecord;
  /** When the record needs another look. */
  freshUntil: number;
  hasChanged: boolean;
}

export class KnownRecords {
  readonly #readRows: (ids: readonly string[]) => Promise<readonly Read[]>;
  readonly #bell: Pick<Bell, "isUp"> | undefined;
  readonly #lastMs: number;
  readonly #kept = new LRUCache<string, Kept>({ max: MAX_RECORDS, maxSize: MAX_LENGTH });
  /** Records that were asked for and are about to be read, together. */
  #asked = new Map<string, PromiseWithResolvers<JobRecord | undefined>>();
  /** One reading ends before the next begins: else what one has shown could be followed by something older of the other. */
  readonly #readAll = coalesced(() => this.#readAsked());
  /** When the reading that goes on began, which jobs have changed since, and whether all changes were told. */
  #reading = { since: Infinity, changed: new Set<string>(), isWhole: true };
  /** Whether the last reading that ended found no database. */
  #isAway = false;

  constructor(
    read: (ids: readonly string[]) => Promise<readonly Read[]>,
    bell?: Pick<Bell, "isUp" | "on" | "onUp">,
    lastMs = LAST_MS,
  ) {
    this.#readRows = read;
    this.#bell = bell;
    this.#lastMs = lastMs;
    bell?.on("denoise_jobs", (news) => {
      const [id = "", status] = news.split(" ");
      if (status === "deleted") this.forget(id);
      else this.#outdate(id);
    });
    // What happened meanwhile was not told.
    bell?.onUp(() => {
      for (const kept of this.#kept.values()) kept.freshUntil = 0;
      this.#reading.isWhole = false;
    });
  }

  /** `mayBeOld`: the record that was seen last will do where the database takes its time. */
  get(id: string, mayBeOld: boolean): Promise<JobRecord | undefined> {
    const kept = this.#kept.get(id);
    if (kept && this.#isTold && !kept.hasChanged && performance.now() < kept.freshUntil) {
      return Promise.resolve(kept.record);
    }
    return mayBeOld && this.#bell ? this.#glance(id, kept) : this.#read(id);
  }

  /** Forgets a record that this server has changed: a client that knows of the change must not see the state before. */
  forget(id: string): void {
    this.#outdate(id);
    this.#kept.delete(id);
  }

  get #isTold(): boolean {
    return this.#bell?.isUp ?? true;
  }

  #outdate(id: string): void {
    const kept = this.#kept.peek(id);
    if (kept) kept.hasChanged = true;
    this.#reading.changed.add(id);
  }

  /** A record as it is, or was a moment ago where it takes a while to say. */
  async #glance(id: string, kept: Kept | undefined): Promise<JobRecord | undefined> {
    const reading = this.#read(id);
    if (!kept && this.#isTold) return await reading;
    const waitedMs = Math.max(0, performance.now() - this.#reading.since);
    const glanceMs = (kept?.hasChanged ? CHANGED_MS : GLANCE_MS) - waitedMs;
    const patienceMs = !kept ? SOON_MS : this.#isAway ? 0 : Math.max(0, glanceMs);
    try {
      return await unlessAborted(AbortSignal.timeout(patienceMs), reading);
    } catch (error) {
      const last = isLate(error) || isAway(error) ? this.#kept.get(id) : undefined;
      if (last) return last.record;
      if (isLate(error) && this.#isTold) return await reading;
      throw isLate(error) ? awayError() : error;
    }
  }

  #read(id: string): Promise<JobRecord | undefined> {
    const asked = this.#asked.get(id) ?? Promise.withResolvers();
    this.#asked.set(id, asked);
    asked.promise.catch(() => {});
    void this.#readAll();
    return asked.promise;
  }

  async #readAsked(): Promise<void> {
    await delay(0);
    const asked = this.#asked;
    if (asked.size === 0) return;
    this.#asked = new Map();
    const isTold = this.#isTold;
    const reading = { since: performance.now(), changed: new Set<string>(), isWhole: true };
    this.#reading = reading;
    try {
      const coming = this.#readRows([...asked.keys()]);
      const records = await unlessAborted(AbortSignal.timeout(READ_MS), coming);
      const isWhole = reading.isWhole && isTold === this.#isTold;
      if (this.#bell) this.#keep(asked.keys(), isWhole ? records : []);
      this.#isAway = false;
      const found = new Map(records.map(([record]) => [record.id, record]));
      for (const [id, { resolve }] of asked) resolve(found.get(id));
    } catch (error) {
      const reason = isLate(error) ? awayError(error) : error;
      this.#isAway = isAway(reason);
      for (const { reject } of asked.values()) reject(reason);
    } finally {
      reading.since = Infinity;
    }
  }

  /** Keeps the records that did not change while they were read, and forgets the others that were asked for. */
  #keep(ids: Iterable<string>, records: readonly Read[]): void {
    const { since, changed } = this.#reading;
    const others = new Set(ids);
    for (const [record, length] of records) {
      if (changed.has(record.id)) continue;
      others.delete(record.id);
      const freshMs = OLD_MS[isEnd(record.status) ? "ended" : record.status as "queued"];
      this.#kept.set(record.id, { record, freshUntil: since + freshMs, hasChanged: false }, {
        size: length + 500,
        ttl: freshMs + this.#lastMs,
      });
    }
    for (const id of others) this.#kept.delete(id);
  }
}

function isLate(error: unknown): boolean {
  return error instanceof DOMException && error.name === "TimeoutError";
}
