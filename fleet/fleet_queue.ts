/**
 * The queue of a fleet, as one of its servers sees it: jobs are rows that any worker may take, and
 * their ends come back through the database, whoever asks.
 */

import { isEnd, type JobEvent, type NewJob, type QueuedJob } from "../server/jobs/job.ts";
import { cancelled, endOf, outcomeOf, stopping } from "../server/jobs/job_end.ts";
import { type JobRecord, type JobStatus, RepeatedRequestError } from "../server/jobs/job_store.ts";
import { JobWatchers } from "../server/jobs/job_watchers.ts";
import type { Queue } from "../server/jobs/queue.ts";
import { unlessAborted } from "../server/jobs/unless_aborted.ts";
import { ServiceError } from "../server/service_error.ts";
import { storageFailed } from "../server/storage/write_error.ts";
import type { Bell } from "./bell.ts";
import type { Database } from "./database.ts";
import { detachFiles } from "./input_parts.ts";
import { Live } from "./live.ts";
import { lorasOf } from "./loras_of.ts";
import type { PostgresJobStore } from "./postgres_store.ts";
import { BEAT_MS, DEAD_MS, type Roster } from "./roster.ts";

/** How often it is looked whether jobs have ended of which no news came, in milliseconds. */
const LOOK_MS = 2000;
/** How old what is known of the queue may be while news of it come, in milliseconds. */
const FRESH_MS = 250;
/** Most jobs whose place is known. */
const MAX_PLACES = 2000;
/** Jobs that tell how long one takes. */
const TIMED_JOBS = 20;
/** How long an answer waits for a worker to cancel a job, and for it to let go of the job's files, in milliseconds. */
const CANCEL_MS = 2000;
const RELEASE_MS = 35_000;
/** How often it is looked for the end of a job that is cancelled, in milliseconds. */
const POLL_MS = 100;

/** What a queue of a fleet works with. */
interface FleetQueueOptions {
  /** The shared database. */
  readonly database: Database;
  /** Records in it. */
  readonly store: PostgresJobStore;
  /** Tells of jobs. */
  readonly bell: Bell;
  /** Who works. */
  readonly roster: Roster;
  /** Id of this server in the fleet. */
  readonly member: string;
  /** Most jobs that wait in the whole fleet; those that run do not count. */
  readonly maxQueue: number;
  /** Tells how many bytes of a device a job of a model needs at least. */
  readonly memoryFor: (model: string | undefined, request: unknown) => Promise<number>;
  /** Is given the jobs of a dead server that were not ready: this server prepares them. */
  readonly adopt: (jobs: readonly JobRecord[]) => Promise<void>;
  /** Is told the id of each job that is on record: its files are where workers find them. */
  readonly onQueued: (id: string) => void;
  /** Is given each job that has not come to its good end: a worker that died may have kept something of it. */
  readonly clean: (record: JobRecord) => Promise<void>;
  /** Is told why the database could not be read. */
  readonly fail: (error: unknown) => void;
}

/** Somebody here who waits for a job's end. */
interface Waiting {
  readonly settle: (record: JobRecord | undefined) => void;
  readonly cancelOnClose: boolean;
  readonly reject: (error: unknown) => void;
}

/** The queue of a fleet, as one of its servers sees it. */
export class FleetQueue implements Queue {
  readonly #options: FleetQueueOptions;
  readonly #watchers = new JobWatchers();
  readonly #live: Live;
  /** How many watch each job here. */
  readonly #watched = new Map<string, number>();
  readonly #waiting = new Map<string, Set<Waiting>>();
  readonly #endListeners: ((id: string) => void)[] = [];
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  #order: string[] = [];
  #running: string[] = [];
  #depth = 0;
  #seconds = new Map<string, number>();
  #secondsPerJob = 2;
  #isStale = false;
  #isStarted = false;
  #freshAt = -Infinity;
  #isClosed = false;

  constructor(options: FleetQueueOptions) {
    this.#options = options;
    const { bell, database } = options;
    this.#live = new Live(database);
    bell.on("denoise_jobs", (news) => this.#hear(news));
    bell.on("denoise_live", (news) => void this.#hearLive(news));
    bell.onUp(() => void this.#look());
  }

  /** See {@link Queue.waiting}; those of the whole fleet, as all numbers here. */
  get waiting(): number {
    return this.#depth;
  }

  /** See {@link Queue.running}. */
  get running(): readonly string[] {
    return this.#running;
  }

  /** See {@link Queue.places}. */
  get places(): number {
    return this.#options.roster.workers.reduce((sum, { places }) => sum + places, 0);
  }

  /** See {@link Queue.secondsPerJob}. */
  get secondsPerJob(): number {
    return this.#secondsPerJob;
  }

  /** See {@link Queue.order}. */
  order(): string[] {
    return this.#order;
  }

  /** Begins to look after the queue. */
  start(): void {
    this.#isStarted = true;
    this.#repeat(LOOK_MS, () => this.#look());
    this.#repeat(BEAT_MS, async () => {
      const { store, member, adopt } = this.#options;
      await store.reap();
      const left = await store.adopt(member, DEAD_MS);
      if (left.length > 0) await adopt(left);
    });
  }

  /** See {@link Queue.add}. */
  async add<T>(job: NewJob<T>): Promise<QueuedJob<T>> {
    if (this.#isClosed) throw stopping();
    if (job.signal?.aborted) throw cancelled();
    const controller = new AbortController();
    const isReady = (job.request as { enhancePrompt?: boolean } | null)?.enhancePrompt !== true;
    if (!job.isRecorded) {
      if (!await this.#enqueue(job, isReady)) throw this.#full();
      this.#options.onQueued(job.id);
    }
    const outcome = this.#wait(job, job.signal !== undefined);
    const onAbort = () => void this.cancel(job.id).catch(this.#options.fail);
    job.signal?.addEventListener("abort", onAbort, { once: true });
    outcome.catch(() => {}).finally(() => {
      controller.abort(cancelled());
      job.signal?.removeEventListener("abort", onAbort);
    });
    // It may have been aborted while it was queued.
    if (job.signal?.aborted) onAbort();
    const prepared = isReady ? Promise.resolve() : this.#prepare(job, controller.signal);
    prepared.catch(() => {});
    return { prepared, outcome };
  }

  /** See {@link Queue.join}. */
  async join<T>(job: Pick<NewJob<T>, "id" | "kind" | "restore">): Promise<T> {
    if (this.#isClosed) throw stopping();
    const outcome = this.#wait(job, false);
    // Its end may be past.
    void this.#look().catch(() => {});
    return await outcome;
  }

  /** See {@link Queue.watch}. */
  watch(id: string, watcher: (event: JobEvent) => void): () => void {
    this.#watched.set(id, (this.#watched.get(id) ?? 0) + 1);
    const stop = this.#watchers.watch(id, watcher);
    // Whoever comes late is told what a server before this one may have told others.
    void this.#live.read(id).then((events) => {
      for (const event of events) watcher(event);
    }).catch(() => {});
    let isWatched = true;
    return () => {
      if (!isWatched) return;
      isWatched = false;
      stop();
      const left = this.#watched.get(id)! - 1;
      if (left > 0) this.#watched.set(id, left);
      else this.#watched.delete(id);
    };
  }

  /** See {@link Queue.onEnd}. */
  onEnd(listener: (id: string) => void): void {
    this.#endListeners.push(listener);
  }

  /** See {@link Queue.cancel}. */
  cancel(id: string): Promise<boolean> {
    return this.#cancel(id, CANCEL_MS);
  }

  /** See {@link Queue.cancelAndWait}. */
  cancelAndWait(id: string): Promise<boolean> {
    return this.#cancel(id, RELEASE_MS);
  }

  /** Asks a job's worker to cancel it, and waits a while for that; whether the job has ended, or is not there. */
  async #cancel(id: string, patienceMs: number): Promise<boolean> {
    const { store } = this.#options;
    await store.requestCancel(id);
    await store.cancelWaiting(id);
    for (const end = performance.now() + patienceMs;;) {
      const status = (await store.statuses([id])).get(id);
      if (status === undefined || isEnd(status)) return true;
      if (performance.now() > end) return false;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** See {@link Queue.close}: the fleet goes on; only jobs whose clients wait for their answer are given up. */
  async close(graceMs: number): Promise<void> {
    this.#isClosed = true;
    for (const timer of this.#timers) clearTimeout(timer);
    const held = [...this.#waiting]
      .filter(([, all]) => [...all].some(({ cancelOnClose }) => cancelOnClose));
    for (const end = performance.now() + graceMs; performance.now() < end;) {
      if (held.every(([id]) => !this.#waiting.has(id))) break;
      await this.#look().catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const cancelled = held.filter(([id]) => this.#waiting.has(id))
      .map(([id]) => this.cancel(id).catch(() => {}));
    await Promise.all(cancelled);
    for (const all of this.#waiting.values()) for (const { reject } of all) reject(stopping());
    await this.#tellEnds().catch(() => {});
  }

  async #enqueue<T>(job: NewJob<T>, isReady: boolean): Promise<boolean> {
    const { store, member, maxQueue } = this.#options;
    const { request, files } = detachFiles(job.request);
    const { seeds = [] } = (request ?? {}) as { seeds?: number[] };
    const each = this.#seconds.get(job.model ?? "") ?? this.#secondsPerJob;
    const memory = await this.#options.memoryFor(job.model, job.request).catch(() => 0);
    try {
      return await store.enqueue(
        {
          ...{ id: job.id, kind: job.kind, request, summary: job.summary, isReady, inputs: files },
          client: job.client ?? "",
          model: job.model,
          loras: lorasOf(request),
          priority: job.priority ?? 0,
          memory,
          seconds: each * Math.max(1, seeds.length),
          front: member,
          ...(job.requestKey ? { requestKey: job.requestKey } : {}),
        },
        maxQueue,
        this.places,
      );
    } catch (error) {
      throw error instanceof RepeatedRequestError ? error : storageFailed(error);
    }
  }

  /** Resolves with what comes of a job. */
  #wait<T>(
    job: Pick<NewJob<T>, "id" | "kind" | "restore">,
    cancelOnClose: boolean,
  ): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const waiting: Waiting = {
      ...{ cancelOnClose, reject },
      settle: (record) => {
        const came = outcomeOf(job, record);
        // Whoever prepares it may have told of its failure already.
        came.catch(() => {});
        resolve(came);
      },
    };
    const all = this.#waiting.get(job.id) ?? new Set();
    this.#waiting.set(job.id, all.add(waiting));
    promise.catch(() => {}).finally(() => {
      all.delete(waiting);
      if (all.size === 0) this.#waiting.delete(job.id);
    });
    return promise;
  }

  /** What a job needs before a worker may take it. */
  async #prepare<T>(job: NewJob<T>, signal: AbortSignal): Promise<void> {
    const { store } = this.#options;
    try {
      const change = await unlessAborted(signal, job.prepare?.(signal) ?? Promise.resolve({}));
      await store.makeReady(job.id, change);
    } catch (error) {
      await store.update(job.id, endOf(error));
      for (const { reject } of this.#waiting.get(job.id) ?? []) reject(error);
      throw error;
    }
  }

  /** News of a job: `<id> <status>`. */
  #hear(news: string): void {
    const [id = "", status = ""] = news.split(" ");
    this.#beFresh();
    if (status === "cancel") return;
    if (status === "deleted") {
      this.#watchers.tell(id, { type: "status", status: "cancelled" });
      for (const { settle } of this.#waiting.get(id) ?? []) settle(undefined);
    } else void this.#learn(id, status as JobStatus);
  }

  async #learn(id: string, status: JobStatus): Promise<void> {
    if (isEnd(status)) {
      const waiting = this.#waiting.get(id);
      try {
        const record = waiting && await this.#options.store.get(id);
        for (const { settle } of waiting ?? []) settle(record);
      } catch {
        // It is looked for again.
        return;
      }
    }
    if (this.#watched.has(id) || isEnd(status)) {
      this.#watchers.tell(id, { type: "status", status });
    }
  }

  /** News of how far a job is. */
  async #hearLive(news: string): Promise<void> {
    const id = news.slice(0, news.indexOf(" "));
    if (!this.#watched.has(id)) return;
    const text = news.slice(id.length + 1);
    try {
      const events = text === "preview"
        ? (await this.#live.read(id)).filter(({ type }) => type === "preview")
        : [eventOf(text)];
      if (!this.#watched.has(id)) return;
      for (const event of events) this.#watchers.tell(id, event);
    } catch {
      // The next news make up for it.
    }
  }

  /** Looks for ends and changes of which no news came. */
  async #look(): Promise<void> {
    this.#beFresh();
    const ids = [...new Set([...this.#waiting.keys(), ...this.#watched.keys()])];
    if (ids.length === 0) return;
    const known = await this.#options.store.statuses(ids);
    for (const id of ids) {
      const status = known.get(id);
      if (status === undefined) this.#hear(`${id} deleted`);
      else if (isEnd(status)) await this.#learn(id, status);
    }
  }

  /** Looks how the queue is, at once or soon after the last time, and who is to be told of ends. */
  #beFresh(): void {
    if (this.#isStale || !this.#isStarted || this.#isClosed) return;
    this.#isStale = true;
    const wait = Math.max(0, this.#freshAt + FRESH_MS - performance.now());
    const timer = setTimeout(async () => {
      this.#timers.delete(timer);
      this.#isStale = false;
      this.#freshAt = performance.now();
      try {
        await this.#refresh();
        await this.#tellEnds();
      } catch (error) {
        if (!this.#isClosed) this.#options.fail(error);
      }
    }, wait);
    this.#timers.add(timer);
  }

  async #refresh(): Promise<void> {
    const now = await this.#options.store.overview(MAX_PLACES, TIMED_JOBS);
    this.#order = now.waiting;
    this.#running = now.running;
    this.#depth = now.depth;
    this.#seconds = now.seconds;
    const times = [...now.seconds.values()];
    if (times.length > 0) {
      this.#secondsPerJob = times.reduce((sum, time) => sum + time, 0) / times.length;
    }
  }

  /** Tells those here who listen of the ends that are given to this server. */
  async #tellEnds(): Promise<void> {
    const { store, clean, fail } = this.#options;
    for (const record of await store.untold()) {
      for (const listener of this.#endListeners) listener(record.id);
      if (record.status !== "completed") void clean(record).catch(fail);
    }
  }

  #repeat(ms: number, work: () => Promise<void>): void {
    let timer: ReturnType<typeof setTimeout>;
    const turn = async () => {
      this.#timers.delete(timer);
      try {
        await work();
      } catch (error) {
        if (!this.#isClosed) this.#options.fail(error);
      }
      if (!this.#isClosed) again();
    };
    const again = () => void this.#timers.add(timer = setTimeout(turn, ms));
    again();
  }

  #full(): ServiceError {
    const next = this.#secondsPerJob / Math.max(1, this.places);
    const seconds = Math.min(120, Math.max(1, Math.ceil(next)));
    const message =
      `Cannot queue the request: too many wait already; the fleet takes ${this.#options.maxQueue}, ` +
      `and of one client as many as there are places left; try again in ${seconds} s`;
    return new ServiceError("queue_full", message, { retryAfter: seconds });
  }
}

/** News that hold all that is new. */
function eventOf(text: string): JobEvent {
  const [output] = /^output /.exec(text) ?? [""];
  return {
    type: output ? "output" : "progress",
    ...JSON.parse(text.slice(output.length)),
  } as JobEvent;
}
