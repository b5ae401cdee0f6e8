/**
 * One job at a time: clients take turns, and the jobs of one client run in the order in which they
 * came.
 *
 * @module
 */

import { ApiError } from "../contract/errors.ts";
import { storageFailed } from "../storage/write_error.ts";
import type { JobChange, JobStatus, JobStore } from "./job_store.ts";

/** What a running job may use. */
export interface JobContext {
  /** The job's id. */
  readonly id: string;
  /** Fires when the job is cancelled. */
  readonly signal: AbortSignal;
  /** Records how far the work is, and tells whoever watches. */
  progress(progress: JobProgress): void;
  /** Shows an unfinished result to whoever watches. */
  preview(preview: JobPreview): void;
}

/** How far a job is. */
export interface JobProgress {
  /** Finished share of the work, 0 to 1. */
  fraction: number;
  /** Denoising steps that are finished, of all outputs. */
  step?: number;
  /** Denoising steps altogether. */
  totalSteps?: number;
  /** Expected time to the end, in seconds. */
  etaSeconds?: number;
}

/** An unfinished result. */
export interface JobPreview {
  /** Which output it is of. */
  output: number;
  /** Which preview of that output it is, from 0. */
  index: number;
  /** A picture. */
  bytes: Uint8Array<ArrayBuffer>;
  /** Its type. */
  contentType: string;
}

/** What happens to a job. */
export type JobEvent =
  | { readonly type: "status"; readonly status: JobStatus }
  | ({ readonly type: "progress" } & JobProgress)
  | ({ readonly type: "preview" } & JobPreview);

/** A job to be queued. */
export interface NewJob<T> {
  /** Unique; results are kept under it. */
  id: string;
  /** What the job makes. */
  kind: string;
  /** What was asked for, a JSON value. */
  request: unknown;
  /** Whose job it is: clients take turns. Jobs without a client share one turn. */
  client?: string;
  /** Whether its record is there already. */
  isRecorded?: boolean;
  /** Does it. */
  work: (context: JobContext) => Promise<T>;
  /** What to record of the outcome, a JSON value. */
  toRecord: (outcome: T) => unknown;
  /** Takes an outcome back that could not be recorded. */
  discard?: (outcome: T) => Promise<void>;
  /** Cancels the job, waiting or running. */
  signal?: AbortSignal;
}

/** Limits of a {@link JobQueue}. */
export interface JobQueueOptions {
  /** Most jobs that wait; the one that runs does not count. */
  maxQueue: number;
  /** Leave what is not finished queued when the queue is closed, for the next server. */
  resumes?: boolean;
  /** Called after each job's end. */
  onEnd?: (id: string) => void;
}

/** The code of jobs that a stopping server refuses or aborts. */
const SHUTTING_DOWN = "shutting_down";

/** How long an aborted job may take to notice. */
const ABORT_MS = 5000;

interface Entry {
  readonly id: string;
  readonly client: string;
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
  /** When each client was last served, in turns; forgotten when nobody waits. */
  readonly #served = new Map<string, number>();
  readonly #watchers = new Map<string, Set<(event: JobEvent) => void>>();
  #turn = 0;
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
    this.#idle.resolve();
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
    const waiting = [...this.#waiting];
    const served = new Map(this.#served);
    const ids: string[] = [];
    for (let turn = this.#turn; waiting.length > 0; turn++) {
      const [entry] = waiting.splice(nextIndex(waiting, served), 1);
      served.set(entry!.client, turn);
      ids.push(entry!.id);
    }
    return ids;
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
    const watchers = this.#watchers.get(id) ?? new Set();
    this.#watchers.set(id, watchers.add(watcher));
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(id) === watchers) this.#watchers.delete(id);
    };
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
    this.#record(id, { status: "cancelled", endedAt: Date.now() });
    this.#options.onEnd?.(id);
    entry!.refuse(cancelled());
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
        this.#record(entry.id, { endedAt: Date.now(), ...endOf(error) });
        this.#options.onEnd?.(entry.id);
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
    let percent = 0;
    try {
      const outcome = await job.work({
        id,
        signal,
        progress: (progress) => {
          const now = Math.floor(Math.min(1, Math.max(0, progress.fraction)) * 100);
          this.#tell(id, { type: "progress", ...progress });
          if (now <= percent) return;
          percent = now;
          this.#record(id, { progress: now });
        },
        preview: (preview) => this.#tell(id, { type: "preview", ...preview }),
      });
      signal.throwIfAborted();
      const endedAt = Date.now();
      const result = job.toRecord(outcome);
      try {
        this.#store.update(id, { status: "completed", progress: 100, endedAt, result });
        this.#tell(id, { type: "status", status: "completed" });
      } catch (error) {
        await job.discard?.(outcome);
        throw storageFailed(error);
      }
      this.#secondsPerJob += 0.3 * ((endedAt - startedAt) / 1000 - this.#secondsPerJob);
      return outcome;
    } catch (error) {
      const reason = signal.aborted ? signal.reason : error;
      const isLeft = this.#options.resumes && this.#isClosing && reason instanceof ApiError &&
        reason.body.error.code === SHUTTING_DOWN;
      if (isLeft) this.#record(id, { status: "queued", progress: 0, startedAt: null });
      else this.#record(id, { endedAt: Date.now(), ...endOf(reason) });
      throw reason;
    } finally {
      if (this.#store.get(id)?.status !== "queued") this.#options.onEnd?.(id);
    }
  }

  /** Changes a record, or leaves it: a full disk must neither end the work nor hide its reason. */
  #record(id: string, change: JobChange): void {
    try {
      this.#store.update(id, change);
    } catch {
      // The record is ended as interrupted when the server stops or is started again.
    }
    if (change.status) this.#tell(id, { type: "status", status: change.status });
  }

  #tell(id: string, event: JobEvent): void {
    for (const watcher of this.#watchers.get(id) ?? []) {
      try {
        watcher(event);
      } catch {
        // Whoever watches must not end the work.
      }
    }
    if (event.type === "status" && isEnd(event.status)) this.#watchers.delete(id);
  }

  #next(): void {
    if (this.#running) return;
    const [entry] = this.#waiting.splice(nextIndex(this.#waiting, this.#served), 1);
    if (!entry) {
      this.#served.clear();
      this.#idle.resolve();
      return;
    }
    this.#served.set(entry.client, this.#turn++);
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

/** The oldest job of the client that was served longest ago, or never. */
function nextIndex(waiting: readonly Entry[], served: ReadonlyMap<string, number>): number {
  let best = 0;
  let least = Infinity;
  for (const [index, { client }] of waiting.entries()) {
    const turn = served.get(client) ?? -1;
    if (turn < least) [best, least] = [index, turn];
  }
  return best;
}

/**
 * Whether a status is one of the three ends.
 *
 * @param status of a job
 * @returns true for completed, failed and cancelled
 */
export function isEnd(status: JobStatus): boolean {
  return status !== "queued" && status !== "in_progress";
}

function endOf(reason: unknown) {
  if (reason instanceof DOMException && reason.name === "AbortError") {
    return { status: "cancelled" } as const;
  }
  const error = reason instanceof ApiError
    ? {
      code: reason.body.error.code === SHUTTING_DOWN
        ? "interrupted"
        : reason.body.error.code ?? "failed",
      message: reason.message,
    }
    : { code: "internal_error", message: "Cannot finish the job: an internal error occurred" };
  return { status: "failed", error } as const;
}

function cancelled(): DOMException {
  return new DOMException("The request was cancelled", "AbortError");
}

function stopping(): ApiError {
  return new ApiError(503, "Cannot take the request: the server is stopping", {
    code: SHUTTING_DOWN,
    headers: { "retry-after": "5" },
  });
}
