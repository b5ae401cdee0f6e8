/**
 * The records of the jobs that a worker has claimed, as its queue sees them: it changes no job that is
 * another's by now.
 */

import { isEnd } from "../server/jobs/job.ts";
import type { JobChange, JobEntry, JobRecord, JobStore } from "../server/jobs/job_store.ts";
import type { Database } from "./database.ts";
import { changesOf, type PostgresJobStore } from "./postgres_store.ts";

/** Shortest time between two records of a job's progress, in milliseconds. */
const PROGRESS_MS = 1000;

/** What {@link LeaseStore} leaves to the store of the fleet. */
type Rest = Omit<JobStore, "insert" | "update" | "close">;

/** The records of the jobs that a worker has claimed. */
export class LeaseStore implements Rest, JobStore {
  readonly #database: Database;
  readonly #store: PostgresJobStore;
  readonly #member: string;
  readonly #told = new Map<string, number>();
  readonly #lost = new Set<string>();
  /** HTTP statuses of jobs that failed, told before their ends are recorded. */
  readonly #errorStatus = new Map<string, number>();

  constructor(database: Database, store: PostgresJobStore, member: string) {
    this.#database = database;
    this.#store = store;
    this.#member = member;
  }

  /** Whether a job that runs here is another worker's by now. */
  isLost(id: string): boolean {
    return this.#lost.has(id);
  }

  /** Says that a job is another's by now. */
  lose(id: string): void {
    this.#lost.add(id);
  }

  /** Says with which HTTP status a job fails, for whoever waits for it. */
  failsWith(id: string, status: number): void {
    this.#errorStatus.set(id, status);
  }

  /** Forgets a job that has ended here. */
  forget(id: string): void {
    this.#told.delete(id);
    this.#lost.delete(id);
    this.#errorStatus.delete(id);
  }

  /** Jobs come by claims. */
  insert(): Promise<void> {
    return Promise.reject(new TypeError("Cannot add a job to a worker: servers do that"));
  }

  /**
   * See {@link JobStore.update}.
   *
   * @returns false where nobody wants what the job made: it was cancelled or deleted. What another
   * worker makes anew is wanted
   */
  async update(id: string, change: JobChange): Promise<boolean> {
    const isNothing = Object.keys(change).length === 0;
    if (isNothing || this.#lost.has(id) || this.#isTooSoon(id, change)) return true;
    const { status } = change;
    const isOver = status !== undefined && isEnd(status);
    const isGivenBack = status === "queued";
    const states = {
      ...(isOver || isGivenBack ? { lease_until: null } : {}),
      ...(isGivenBack ? { owner: null } : {}),
      ...(status === "failed" ? { error_status: this.#errorStatus.get(id) ?? 500 } : {}),
    };
    // A job whose lease ran out while the database was away is still this worker's until another has it.
    const { count } = await this.#database.use((sql) =>
      sql`UPDATE denoise_jobs SET ${
        sql({ ...changesOf(sql, change), ...states })
      } WHERE id = ${id} AND owner = ${this.#member}
        AND status IN ('in_progress', 'queued')`
    );
    if (count > 0) return true;
    const now = await this.#store.get(id);
    if (now !== undefined && now.status !== "cancelled") this.#lost.add(id);
    return now !== undefined && now.status !== "cancelled";
  }

  /** See {@link JobStore.findRepeated}. */
  findRepeated(
    ...args: Parameters<JobStore["findRepeated"]>
  ): ReturnType<JobStore["findRepeated"]> {
    return this.#store.findRepeated(...args);
  }

  /** See {@link JobStore.get}. */
  get(id: string): Promise<JobRecord | undefined> {
    return this.#store.get(id);
  }

  /** See {@link JobStore.list}. */
  list(...args: Parameters<JobStore["list"]>): Promise<JobEntry[]> {
    return this.#store.list(...args);
  }

  /** See {@link JobStore.counts}. */
  counts(): ReturnType<JobStore["counts"]> {
    return this.#store.counts();
  }

  /** See {@link JobStore.expired}. */
  expired(...args: Parameters<JobStore["expired"]>): ReturnType<JobStore["expired"]> {
    return this.#store.expired(...args);
  }

  /** See {@link JobStore.delete}. */
  delete(id: string): Promise<void> {
    return this.#store.delete(id);
  }

  /** The database is not its own. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Progress in whole numbers is for records; those who watch have the live one. */
  #isTooSoon(id: string, change: JobChange): boolean {
    if (Object.keys(change).join() !== "progress") return false;
    const now = performance.now();
    if (now - (this.#told.get(id) ?? -Infinity) < PROGRESS_MS) return true;
    this.#told.set(id, now);
    return false;
  }
}
