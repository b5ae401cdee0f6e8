/** Changes of jobs that wait to be written: a full disk or a locked database neither stops the work nor loses its end. */

import type { Log } from "../log.ts";
import { describeWriteError } from "../../generation/write_error.ts";
import type {
  JobChange,
  JobCount,
  JobEntry,
  JobFilter,
  JobRecord,
  JobStore,
  NewRecord,
  RepeatedRequest,
} from "./job_store.ts";
import { SqliteJobStore, type SqliteStoreOptions } from "./sqlite_store.ts";

/** What can be set for tests. */
interface WriteBehindOptions {
  log?: Log;
  /** Pause before what could not be written is written again, in milliseconds. */
  retryMs?: number;
}

/** What is to be written of one job. */
interface Pending {
  change: JobChange;
  /** Resolves when it was written or could not be. */
  writing: Promise<boolean> | undefined;
}

/** A store whose `update` never fails: what cannot be written is kept in memory, where readers find it, and written later. */
export class WriteBehindStore implements JobStore {
  readonly #store: JobStore;
  readonly #log: Log;
  readonly #retryMs: number;
  readonly #pending = new Map<string, Pending>();
  #retry: ReturnType<typeof setTimeout> | undefined;
  #isFailing = false;

  constructor(store: JobStore, { log = () => {}, retryMs = 1000 }: WriteBehindOptions = {}) {
    this.#store = store;
    this.#log = log;
    this.#retryMs = retryMs;
  }

  insert(job: NewRecord): Promise<void> {
    return this.#store.insert(job);
  }

  findRepeated(key: string): Promise<RepeatedRequest | undefined> {
    return this.#store.findRepeated(key);
  }

  /** See {@link JobStore.update}; resolves with true, too, when it is to be tried again. */
  async update(id: string, change: JobChange): Promise<boolean> {
    const pending: Pending = this.#pending.get(id) ?? { change: {}, writing: undefined };
    pending.change = { ...pending.change, ...change };
    this.#pending.set(id, pending);
    return await (pending.writing ??= this.#write(id, pending));
  }

  async get(id: string): Promise<JobRecord | undefined> {
    for (;;) {
      const before = this.#pending.get(id);
      const record = await this.#store.get(id);
      const pending = this.#pending.get(id);
      // What was written meanwhile may not be in what was read.
      if (before && before !== pending) continue;
      return record && { ...record, ...pending?.change };
    }
  }

  async list(filter: JobFilter = {}): Promise<JobEntry[]> {
    const listed = await this.#store.list(filter);
    const now = listed.map((entry) => ({ ...entry, ...this.#pending.get(entry.id)?.change }));
    const { statuses, limit } = filter;
    if (statuses === undefined || this.#pending.size === 0) return now;
    const came = await this.#withPendingStatus(filter, new Set(listed.map(({ id }) => id)));
    const sign = filter.order === "asc" ? 1 : -1;
    return [...now.filter(({ status }) => statuses.includes(status)), ...came]
      .sort((one, other) => sign * (one.createdAt - other.createdAt))
      .slice(0, limit);
  }

  async counts(): Promise<JobCount[]> {
    const counts = await this.#store.counts();
    const add = (kind: string, status: JobCount["status"], count: number) => {
      const known = counts.find((one) => one.kind === kind && one.status === status);
      if (known) known.count += count;
      else counts.push({ kind, status, count });
    };
    for (const [id, { change: { status } }] of this.#pending) {
      const written = status && await this.#store.get(id);
      if (!written) continue;
      add(written.kind, written.status, -1);
      add(written.kind, status, 1);
    }
    return counts.filter(({ count }) => count > 0);
  }

  expired(...args: Parameters<JobStore["expired"]>): ReturnType<JobStore["expired"]> {
    return this.#store.expired(...args);
  }

  async delete(id: string): Promise<boolean> {
    const wasThere = await this.#store.delete(id);
    this.#pending.delete(id);
    return wasThere;
  }

  /** See {@link JobStore.close}; what could not be written is tried once more. */
  async close(): Promise<void> {
    await this.#writeAll();
    clearTimeout(this.#retry);
    if (this.#pending.size > 0) {
      this.#log(
        `Cannot record the end of ${this.#pending.size} jobs: the next server to start on these ` +
          "records ends them as interrupted",
        { level: "error" },
      );
    }
    await this.#store.close();
  }

  /** Writes a job's changes until there are none left, or they cannot be written. */
  async #write(id: string, pending: Pending): Promise<boolean> {
    let isThere = true;
    try {
      while (this.#pending.get(id) === pending) {
        const { change } = pending;
        isThere = await this.#store.update(id, change);
        if (pending.change === change) this.#pending.delete(id);
      }
      if (this.#isFailing && this.#pending.size === 0) {
        this.#isFailing = false;
        this.#log("Records of jobs are written again; nothing was lost");
      }
      return isThere;
    } catch (error) {
      if (!this.#isFailing) {
        this.#isFailing = true;
        this.#log(
          `Cannot write the records of jobs: ${describeWriteError(error)}; they are kept in ` +
            "memory, and written when that is possible again",
          { level: "error" },
        );
      }
      this.#retry ??= setTimeout(() => {
        this.#retry = undefined;
        void this.#writeAll();
      }, this.#retryMs);
      return true;
    } finally {
      pending.writing = undefined;
    }
  }

  async #writeAll(): Promise<void> {
    for (const [id, pending] of this.#pending) {
      await (pending.writing ??= this.#write(id, pending));
      // What cannot be written once cannot be written a moment later either.
      if (this.#pending.get(id) === pending) return;
    }
  }

  /** Jobs that came to a status which is not written yet, beyond those that are listed. */
  async #withPendingStatus(
    { kind, statuses = [], after }: JobFilter,
    listed: ReadonlySet<string>,
  ): Promise<JobEntry[]> {
    // Where a page begins, these jobs were on an earlier one.
    if (after !== undefined) return [];
    const ids = [...this.#pending].filter(([id, { change: { status } }]) =>
      status && statuses.includes(status) && !listed.has(id)
    ).map(([id]) => id);
    const records = await Promise.all(ids.map((id) => this.get(id)));
    return records.flatMap((record) =>
      record && (kind === undefined || record.kind === kind) ? [record] : []
    );
  }
}

/** Opens records that end with the process without a folder, and gives the jobs that the last server left. */
export async function openJobStore(
  folder?: string,
  options: SqliteStoreOptions = {},
): Promise<{ store: JobStore; left: readonly JobRecord[] }> {
  const store = folder === undefined
    ? SqliteJobStore.inMemory()
    : await SqliteJobStore.open(folder, options);
  return { store: new WriteBehindStore(store, options), left: store.left };
}
