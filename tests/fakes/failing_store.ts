/** Records on a disk that fills up. */

import type {
  JobChange,
  JobCount,
  JobEntry,
  JobFilter,
  JobRecord,
  JobStore,
  NewRecord,
  RepeatedRequest,
} from "../../server/jobs/job_store.ts";

/** Records of jobs on a disk that fills up. */
export class FailingStore implements JobStore {
  /** Names of the methods that fail now. */
  failing: readonly (keyof JobStore)[] = [];
  /** The error that failing methods throw. */
  failure = new Error("database or disk is full");
  readonly #store: JobStore;

  constructor(store: JobStore) {
    this.#store = store;
  }

  insert(job: NewRecord): Promise<void> {
    return this.#unless("insert", () => this.#store.insert(job));
  }

  findRepeated(key: string): Promise<RepeatedRequest | undefined> {
    return this.#unless("findRepeated", () => this.#store.findRepeated(key));
  }

  update(id: string, change: JobChange): Promise<boolean> {
    return this.#unless("update", () => this.#store.update(id, change));
  }

  get(id: string): Promise<JobRecord | undefined> {
    return this.#unless("get", () => this.#store.get(id));
  }

  list(filter?: JobFilter): Promise<JobEntry[]> {
    return this.#unless("list", () => this.#store.list(filter));
  }

  counts(): Promise<JobCount[]> {
    return this.#unless("counts", () => this.#store.counts());
  }

  expired(...args: Parameters<JobStore["expired"]>): ReturnType<JobStore["expired"]> {
    return this.#unless("expired", () => this.#store.expired(...args));
  }

  delete(id: string): Promise<boolean> {
    return this.#unless("delete", () => this.#store.delete(id));
  }

  close(): Promise<void> {
    return this.#unless("close", () => this.#store.close());
  }

  #unless<T>(name: keyof JobStore, work: () => Promise<T>): Promise<T> {
    return this.failing.includes(name) ? Promise.reject(this.failure) : work();
  }
}
