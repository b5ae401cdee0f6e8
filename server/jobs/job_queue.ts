/**
 * One job at a time: clients take turns, and the jobs of one client run in the order in which they
 * came.
 *
 * @module
 */

import { ApiError } from "../contract/errors.ts";
import { storageFailed } from "../storage/write_error.ts";
import type { JobContext, JobEvent, NewJob } from "./job.ts";
import { cancelled, endOf, isStopping, stopping } from "./job_end.ts";
import type { JobChange, JobStore } from "./job_store.ts";
import { JobWatchers } from "./job_watchers.ts";
import { type Turn, Turns } from "./turns.ts";

/** Limits of a {@link JobQueue}. */
export interface JobQueueOptions {
  /** Most jobs that wait; the one that runs does not count. */
  maxQueue: number;
  /** Leave what is not finished queued when the queue is closed, for the next server. */
  resumes?: boolean;
  /** Called after each job's end. */
  onEnd?: (id: string) => void;
  /** Jobs wait until this resolves; they run from the start when it is left out. */
  ready?: Promise<void>;
}

/** How long an aborted job may take to notice. */
const ABORT_MS = 5000;

interface Entry extends Turn {
  readonly controller: AbortController;
  readonly ended: PromiseWithResolvers<void>;
  readonly run: () => Promise<void>;
  readonly refuse: (reason: unknown) => void;
}

/** The queue. Every job ends in its record: completed, failed or cancelled. */
export class JobQueue {
  readonly #store: JobStore;
  readonly #options: JobQueueOptions;
  readonly #waiting: Entry[] = [];
  readonly #turns = new Turns();
  readonly #watchers = new JobWatchers();
  readonly #endListeners: ((id: string) => void)[] = [];
  #isReady: boolean;
  #running: Entry | undefined;
  #isClosing = false;
  #secondsPerJob = 2;
  #idle = Promise.withResolvers<void>();

  /**
   * @param store keeps the records
   * @param options limits
   */
  constructor(store: JobStore, options: JobQueueOptions) {
    this.#store = store;
    this.#options = options;
    if (options.onEnd) this.#endListeners.push(options.onEnd);
    this.#idle.resolve();
    this.#isReady = options.ready === undefined;
    options.ready?.then(() => {
      this.#isReady = true;
      this.#next();
    }, () => {});
  }

  /** Number of jobs that wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Id of the job that runs, or undefined. */
  get running(): string | undefined {
    return this.#running?.id;
  }

  /**
   * Queues a job. A refusal is thrown at once, not through the promise.
   *
   * @param job what to do
   * @returns resolves with what `work` gave; rejects with what it threw, or with a `DOMException`
   * named `AbortError` when the job was cancelled
   * @throws {ApiError} 429 when too many wait, 503 when the server stops, 500 when the job cannot be
   * recorded
   * @throws {DOMException} named `AbortError` when the signal has fired already
   */
  run<T>(job: NewJob<T>): Promise<T> {
    if (this.#isClosing) throw stopping();
    if (job.signal?.aborted) throw cancelled();
    const isFull = this.#running && this.#waiting.length >= this.#options.maxQueue;
    if (isFull && !job.isRecorded) throw this.#full();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const controller = new AbortController();
    const { id } = job;
    const onAbort = () => this.cancel(id);
    job.signal?.addEventListener("abort", onAbort, { once: true });
    promise.catch(() => {}).finally(() => job.signal?.removeEventListener("abort", onAbort));

    try {
      if (!job.isRecorded) this.#store.insert(job);
    } catch (error) {
      throw storageFailed(error);
    }
    this.#waiting.push({
      id,
      client: job.client ?? "",
      controller,
      ended: Promise.withResolvers(),
      refuse: reject,
      run: async () => {
        try {
          resolve(await this.#perform(job, controller.signal));
        } catch (error) {
          reject(error);
        }
      },
    });
    this.#next();
    return promise;
  }

  /** Ids of the jobs that wait, in the order in which they would run if no more came. */
  order(): string[] {
    return this.#turns.order(this.#waiting);
  }

  /** Time that a job takes, in seconds, from the last ones. */
  get secondsPerJob(): number {
    return this.#secondsPerJob;
  }

  /**
   * Watches a job; its end is its last event.
   *
   * @param id of a job that waits or runs
   * @param watcher called with each event; what it throws is dropped
   * @returns stops watching
   */
  watch(id: string, watcher: (event: JobEvent) => void): () => void {
    return this.#watchers.watch(id, watcher);
  }

  /**
   * Listens to the ends of all jobs.
   *
   * @param listener called with the id of each job after its end is on record
   */
  onEnd(listener: (id: string) => void): void {
    this.#endListeners.push(listener);
  }

  /**
   * Cancels a job.
   *
   * @param id of a job that waits or runs; nothing happens for others
   * @returns whether there was such a job
   */
  cancel(id: string): boolean {
    if (this.#running?.id === id) {
      this.#running.controller.abort(cancelled());
      return true;
    }
    const index = this.#waiting.findIndex((entry) => entry.id === id);
    if (index < 0) return false;
    const [entry] = this.#waiting.splice(index, 1);
    const reason = cancelled();
    this.#record(id, endOf(reason));
    this.#tellEnd(id);
    entry!.refuse(reason);
    return true;
  }

  /**
   * Cancels a job and waits until it has let go of the GPU and of its files.
   *
   * @param id of a job that waits or runs; nothing happens for others
   */
  async cancelAndWait(id: string): Promise<void> {
    const running = this.#running?.id === id ? this.#running : undefined;
    this.cancel(id);
    await running?.ended.promise;
  }

  /**
   * Stops: jobs that wait are refused, the one that runs may finish.
   *
   * @param graceMs how long it may, in milliseconds, before it is aborted
   */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true;
    for (const entry of this.#waiting.splice(0)) {
      const error = stopping();
      if (!this.#options.resumes) {
        this.#record(entry.id, endOf(error));
        this.#tellEnd(entry.id);
      }
      entry.refuse(error);
    }
    const abort = setTimeout(() => this.#running?.controller.abort(stopping()), graceMs);
    const giveUp = Promise.withResolvers<void>();
    const timer = setTimeout(giveUp.resolve, graceMs + ABORT_MS);
    await Promise.race([this.#idle.promise, giveUp.promise]);
    clearTimeout(abort);
    clearTimeout(timer);
  }

  async #perform<T>(job: NewJob<T>, signal: AbortSignal): Promise<T> {
    const { id } = job;
    const startedAt = Date.now();
    this.#record(id, { status: "in_progress", startedAt });
    let isLeft = false;
    try {
      const outcome = await job.work(this.#context(id, signal));
      try {
        signal.throwIfAborted();
        this.#complete(id, job.toRecord(outcome));
      } catch (error) {
        await job.discard?.(outcome);
        throw error;
      }
      this.#secondsPerJob += 0.3 * ((Date.now() - startedAt) / 1000 - this.#secondsPerJob);
      return outcome;
    } catch (error) {
      const reason = signal.aborted ? signal.reason : error;
      isLeft = this.#options.resumes === true && isStopping(reason);
      this.#record(
        id,
        isLeft ? { status: "queued", progress: 0, startedAt: null } : endOf(reason),
      );
      throw reason;
    } finally {
      // A job that is left needs its files again.
      if (!isLeft) this.#tellEnd(id);
    }
  }

  #context(id: string, signal: AbortSignal): JobContext {
    let percent = 0;
    return {
      id,
      signal,
      progress: (progress) => {
        const now = Math.floor(Math.min(1, Math.max(0, progress.fraction)) * 100);
        this.#watchers.tell(id, { type: "progress", ...progress });
        if (now <= percent) return;
        percent = now;
        this.#record(id, { progress: now });
      },
      preview: (preview) => this.#watchers.tell(id, { type: "preview", ...preview }),
    };
  }

  #complete(id: string, result: unknown): void {
    try {
      const endedAt = Date.now();
      this.#store.update(id, { status: "completed", progress: 100, endedAt, result });
    } catch (error) {
      throw storageFailed(error);
    }
    this.#watchers.tell(id, { type: "status", status: "completed" });
  }

  /** Changes a record, or leaves it: a full disk must neither end the work nor hide its reason. */
  #record(id: string, change: JobChange): void {
    try {
      this.#store.update(id, change);
    } catch {
      // The record is ended as interrupted when the server stops or is started again.
    }
    const { status } = change;
    if (status) this.#watchers.tell(id, { type: "status", status });
  }

  #tellEnd(id: string): void {
    for (const listener of this.#endListeners) listener(id);
  }

  #next(): void {
    if (this.#running || !this.#isReady) return;
    const entry = this.#turns.take(this.#waiting);
    if (!entry) return this.#idle.resolve();
    this.#running = entry;
    this.#idle = Promise.withResolvers();
    void entry.run().finally(() => {
      this.#running = undefined;
      entry.ended.resolve();
      this.#next();
    });
  }

  #full(): ApiError {
    const seconds = Math.min(120, Math.max(1, Math.ceil(this.#secondsPerJob)));
    return new ApiError(
      429,
      `Cannot queue the request: ${this.#waiting.length} wait already, which is the limit; ` +
        `try again in ${seconds} s`,
      { code: "queue_full", headers: { "retry-after": String(seconds) } },
    );
  }
}
