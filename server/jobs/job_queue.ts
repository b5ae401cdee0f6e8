/**
 * One job at a time, in the order in which they came.
 *
 * @module
 */

import { ApiError } from "../contract/errors.ts";
import { storageFailed } from "../storage/write_error.ts";
import type { JobChange, JobStore } from "./job_store.ts";

/** What a running job may use. */
export interface JobContext {
  /** The job's id. */
  readonly id: string;
  /** Fires when the job is cancelled. */
  readonly signal: AbortSignal;
  /** Records how far the work is, 0 to 1. */
  progress(fraction: number): void;
}

/** A job to be queued. */
export interface NewJob<T> {
  /** Unique; results are kept under it. */
  id: string;
  /** What the job makes. */
  kind: string;
  /** What was asked for, a JSON value. */
  request: unknown;
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
}

/** How long an aborted job may take to notice. */
const ABORT_MS = 5000;

interface Entry {
  readonly id: string;
  readonly controller: AbortController;
  readonly run: () => Promise<void>;
  readonly refuse: (reason: unknown) => void;
}

/** The queue. Every job ends in its record: completed, failed or cancelled. */
export class JobQueue {
  readonly #store: JobStore;
  readonly #maxQueue: number;
  readonly #waiting: Entry[] = [];
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
    this.#maxQueue = options.maxQueue;
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
    if (this.#running && this.#waiting.length >= this.#maxQueue) throw this.#full();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const controller = new AbortController();
    const { id } = job;
    const onAbort = () => this.cancel(id);
    job.signal?.addEventListener("abort", onAbort, { once: true });
    promise.catch(() => {}).finally(() => job.signal?.removeEventListener("abort", onAbort));

    try {
      this.#store.insert(job);
    } catch (error) {
      throw storageFailed(error);
    }
    this.#waiting.push({
      id,
      controller,
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
    entry!.refuse(cancelled());
    return true;
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
      this.#record(entry.id, {
        status: "failed",
        endedAt: Date.now(),
        error: { code: "interrupted", message: error.message },
      });
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
        progress: (fraction) => {
          const now = Math.floor(Math.min(1, Math.max(0, fraction)) * 100);
          if (now <= percent) return;
          percent = now;
          this.#record(id, { progress: now });
        },
      });
      signal.throwIfAborted();
      const endedAt = Date.now();
      const result = job.toRecord(outcome);
      try {
        this.#store.update(id, { status: "completed", progress: 100, endedAt, result });
      } catch (error) {
        await job.discard?.(outcome);
        throw storageFailed(error);
      }
      this.#secondsPerJob += 0.3 * ((endedAt - startedAt) / 1000 - this.#secondsPerJob);
      return outcome;
    } catch (error) {
      const reason = signal.aborted ? signal.reason : error;
      this.#record(id, { endedAt: Date.now(), ...endOf(reason) });
      throw reason;
    }
  }

  /** Changes a record, or leaves it: a full disk must neither end the work nor hide its reason. */
  #record(id: string, change: JobChange): void {
    try {
      this.#store.update(id, change);
    } catch {
      // The record is ended as interrupted when the server stops or is started again.
    }
  }

  #next(): void {
    if (this.#running) return;
    const entry = this.#waiting.shift();
    if (!entry) {
      this.#idle.resolve();
      return;
    }
    this.#running = entry;
    this.#idle = Promise.withResolvers();
    void entry.run().finally(() => {
      this.#running = undefined;
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

function endOf(reason: unknown) {
  if (reason instanceof DOMException && reason.name === "AbortError") {
    return { status: "cancelled" } as const;
  }
  const error = reason instanceof ApiError
    ? {
      code: reason.body.error.code === "shutting_down"
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
    code: "shutting_down",
    headers: { "retry-after": "5" },
  });
}
