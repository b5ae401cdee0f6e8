/**
 * As many jobs at a time as there are places: clients take turns, and the jobs of one client begin in
 * the order in which they came. What a job needs before its turn is done beside the others.
 */

import { hasRoom } from "../fair_share.ts";
import { EqualPlaces, type Places, type Turn, Turns } from "./turns.ts";
import { ServiceError } from "../contract/errors.ts";
import { storageFailed } from "../storage/failures.ts";
import {
  cancelled,
  endOf,
  isEnd,
  isStopping,
  type JobContext,
  type JobEvent,
  JobWatchers,
  type NewJob,
  outcomeOf,
  percentOf,
  type Queue,
  type QueuedJob,
  stopping,
  unlessAborted,
} from "./job.ts";
import { type JobChange, type JobStore, RepeatedRequestError } from "./job_store.ts";

interface JobQueueOptions {
  /** Most jobs that wait; those that run do not count. */
  maxQueue: number;
  /** Where jobs run; one at a time by default. */
  places?: Places;
  /** Leave what is not finished queued when the queue is closed, for the next server. */
  resumes?: boolean;
  /** Called after each job's end. */
  onEnd?: (id: string) => void;
  /** Jobs wait until this resolves; they run from the start by default. */
  ready?: Promise<void>;
}

/** How long an aborted job may take to notice. */
const ABORT_MS = 5000;

interface Entry extends Turn {
  readonly controller: AbortController;
  readonly turn: PromiseWithResolvers<void>;
  readonly ended: PromiseWithResolvers<void>;
  readonly outcome: PromiseWithResolvers<unknown>;
  isReady: boolean;
  /** Gives its place back; nothing while it waits. */
  giveBack?: () => void;
}

export class JobQueue implements Queue {
  readonly #store: Pick<JobStore, "insert" | "update" | "get">;
  readonly #options: JobQueueOptions;
  readonly #waiting: Entry[] = [];
  readonly #turns = new Turns();
  readonly #watchers = new JobWatchers();
  readonly #endListeners: ((id: string) => void)[] = [];
  readonly #places: Places;
  /** Jobs in the order in which they began. */
  readonly #running: Entry[] = [];
  #isReady: boolean;
  #isClosing = false;
  #secondsPerJob = 2;

  /** `update` of the store must not fail. */
  constructor(store: Pick<JobStore, "insert" | "update" | "get">, options: JobQueueOptions) {
    this.#store = store;
    this.#options = options;
    this.#places = options.places ?? new EqualPlaces(1);
    this.#places.onChange(() => this.#next());
    if (options.onEnd) this.#endListeners.push(options.onEnd);
    this.#isReady = options.ready === undefined;
    options.ready?.then(() => {
      this.#isReady = true;
      this.#next();
    }, () => {});
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get running(): string[] {
    return this.#running.map(({ id }) => id);
  }

  get places(): number {
    return this.#places.count;
  }

  get secondsPerJob(): number {
    return this.#secondsPerJob;
  }

  order(): string[] {
    return this.#turns.order(this.#waiting);
  }

  async add<T>(job: NewJob<T>): Promise<QueuedJob<T>> {
    if (this.#isClosing) throw stopping();
    if (job.signal?.aborted) throw cancelled();
    const room = this.#options.maxQueue + Math.max(0, this.places - this.#running.length);
    const client = job.client ?? "";
    const own = this.#waiting.reduce((count, entry) => count + Number(entry.client === client), 0);
    if (!hasRoom(own, this.#waiting.length, room) && !job.isRecorded) throw this.#full(own, room);
    const entry: Entry = {
      id: job.id,
      client,
      ...(job.model === undefined ? {} : { model: job.model }),
      ...(job.priority === undefined ? {} : { priority: job.priority }),
      since: Date.now(),
      controller: new AbortController(),
      turn: Promise.withResolvers(),
      ended: Promise.withResolvers(),
      outcome: Promise.withResolvers(),
      isReady: false,
    };
    entry.outcome.promise.catch(() => {});
    // It has its place before it is on record, so that jobs keep the order in which they came.
    this.#waiting.push(entry);
    const onAbort = () => void this.cancel(job.id);
    job.signal?.addEventListener("abort", onAbort, { once: true });
    const stopListening = () => job.signal?.removeEventListener("abort", onAbort);
    try {
      if (!job.isRecorded) await this.#store.insert(job);
    } catch (error) {
      stopListening();
      this.#leave(entry);
      throw error instanceof RepeatedRequestError ? error : storageFailed(error);
    }
    const prepared = this.#prepare(job, entry);
    const outcome = this.#perform(job, entry, prepared);
    entry.outcome.resolve(outcome);
    prepared.catch(() => {});
    outcome.catch(() => {}).finally(stopListening);
    return { prepared, outcome };
  }

  async join<T>(job: Pick<NewJob<T>, "id" | "kind" | "restore">): Promise<T> {
    const entry = [...this.#waiting, ...this.#running].find(({ id }) => id === job.id);
    if (entry) return await entry.outcome.promise as T;
    const record = await this.#store.get(job.id);
    if (record && !isEnd(record.status)) throw stopping();
    return await outcomeOf(job, record);
  }

  watch(id: string, watcher: (event: JobEvent) => void): () => void {
    return this.#watchers.watch(id, watcher);
  }

  onEnd(listener: (id: string) => void): void {
    this.#endListeners.push(listener);
  }

  async cancel(id: string): Promise<boolean> {
    const waits = this.#waiting.find((entry) => entry.id === id);
    const entry = waits ?? this.#findRunning(id);
    entry?.controller.abort(cancelled());
    await waits?.ended.promise;
    return entry !== undefined;
  }

  async cancelAndWait(id: string): Promise<boolean> {
    const running = this.#findRunning(id);
    await this.cancel(id);
    await running?.ended.promise;
    return true;
  }

  async close(graceMs: number): Promise<void> {
    this.#isClosing = true;
    const entries = [...this.#waiting, ...this.#running];
    for (const { controller } of this.#waiting) controller.abort(stopping());
    const abort = setTimeout(() => {
      for (const { controller } of this.#running) controller.abort(stopping());
    }, graceMs);
    const giveUp = Promise.withResolvers<void>();
    const timer = setTimeout(giveUp.resolve, graceMs + ABORT_MS);
    const allEnded = Promise.all(entries.map(({ ended }) => ended.promise));
    await Promise.race([allEnded, giveUp.promise]);
    clearTimeout(abort);
    clearTimeout(timer);
  }

  /** What is done before a job's turn. */
  async #prepare<T>(job: NewJob<T>, entry: Entry): Promise<void> {
    const { signal } = entry.controller;
    signal.throwIfAborted();
    if (job.prepare) {
      this.#record(entry.id, await unlessAborted(signal, job.prepare(signal)));
    }
    entry.isReady = true;
    this.#next();
  }

  async #perform<T>(job: NewJob<T>, entry: Entry, prepared: Promise<void>): Promise<T> {
    const { id } = job;
    const { signal } = entry.controller;
    let isLeft = false;
    try {
      await prepared;
      await unlessAborted(signal, entry.turn.promise);
      const since = performance.now();
      this.#record(id, { status: "in_progress", startedAt: Date.now() });
      const outcome = await job.work(this.#context(id, signal));
      await this.#complete(job, outcome, signal);
      const seconds = (performance.now() - since) / 1000;
      this.#secondsPerJob += 0.3 * (seconds - this.#secondsPerJob);
      return outcome;
    } catch (error) {
      const reason = signal.aborted ? signal.reason : error;
      isLeft = this.#options.resumes === true && isStopping(reason);
      await this.#record(
        id,
        isLeft ? { status: "queued", progress: 0, startedAt: null } : endOf(reason),
      );
      throw reason;
    } finally {
      this.#leave(entry);
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
        const now = percentOf(progress);
        this.#watchers.tell(id, { type: "progress", ...progress });
        if (now <= percent) return;
        percent = now;
        this.#record(id, { progress: now });
      },
      preview: (preview) => this.#watchers.tell(id, { type: "preview", ...preview }),
      output: (output) => this.#watchers.tell(id, { type: "output", ...output }),
    };
  }

  /** Records what came out, or takes it back when nobody wants it any more. */
  async #complete<T>(job: NewJob<T>, outcome: T, signal: AbortSignal): Promise<void> {
    try {
      signal.throwIfAborted();
      const isThere = await this.#record(job.id, {
        status: "completed",
        progress: 100,
        endedAt: Date.now(),
        result: job.toRecord(outcome),
      });
      if (!isThere) throw cancelled();
    } catch (error) {
      await job.discard?.(outcome);
      throw error;
    }
  }

  /** Changes a record, then tells watchers; resolves with whether the record is there. */
  async #record(id: string, change: JobChange): Promise<boolean> {
    const isThere = await this.#store.update(id, change);
    const { status } = change;
    if (status) this.#watchers.tell(id, { type: "status", status });
    return isThere;
  }

  #tellEnd(id: string): void {
    for (const listener of this.#endListeners) listener(id);
  }

  #findRunning(id: string): Entry | undefined {
    return this.#running.find((entry) => entry.id === id);
  }

  /** Gives a job's place or turn to others. */
  #leave(entry: Entry): void {
    remove(this.#waiting, entry);
    remove(this.#running, entry);
    entry.giveBack?.();
    entry.ended.resolve();
    this.#next();
    // The others have other places now.
    for (const { id } of this.#waiting) {
      if (this.#watchers.isWatched(id)) {
        this.#watchers.tell(id, { type: "status", status: "queued" });
      }
    }
  }

  /** Begins jobs as long as there is a place for one. */
  #next(): void {
    if (!this.#isReady) return;
    while (this.#running.length < this.places) {
      let ahead = 0;
      const canBegin = (entry: Entry) =>
        entry.isReady && (this.#places.hasRoomFor(entry, ahead) || ++ahead === 0);
      const entry = this.#turns.take(this.#waiting, canBegin);
      if (!entry) return;
      this.#running.push(entry);
      entry.giveBack = this.#places.take(entry);
      entry.turn.resolve();
    }
  }

  #full(own: number, room: number): ServiceError {
    const next = this.#secondsPerJob / Math.max(1, this.places);
    const seconds = Math.min(120, Math.max(1, Math.ceil(next)));
    const { length } = this.#waiting;
    const state = length >= room
      ? `${length} wait already, which is the limit`
      : `${own} of yours wait already, and the rest of the queue is for others`;
    const message = `Cannot queue the request: ${state}; try again in ${seconds} s`;
    return new ServiceError("queue_full", message, { retryAfter: seconds });
  }
}

function remove(entries: Entry[], entry: Entry): void {
  const index = entries.indexOf(entry);
  if (index >= 0) entries.splice(index, 1);
}
