/** The queue of a fleet, as one server sees it: jobs are rows that any worker may take; their ends come back by the database. */

import { setTimeout as delay } from "node:timers/promises";
import { type ImageRequest, outputSeeds } from "../server/images/image_request.ts";
import { InputFolder } from "../server/inputs/input_folder.ts";
import {
  cancelled,
  endOf,
  isEnd,
  type JobEvent,
  JobWatchers,
  type NewJob,
  outcomeOf,
  type Queue,
  type QueuedJob,
  stopping,
  unlessAborted,
} from "../server/jobs/job.ts";
import { type JobRecord, type JobStatus, RepeatedRequestError } from "../server/jobs/job_store.ts";
import { ServiceError } from "../server/contract/errors.ts";
import { storageFailed } from "../server/storage/failures.ts";
import type { ResultStorage } from "../server/storage/result_storage.ts";
import { videoFormat, type VideoRequest } from "../server/videos/video_request.ts";
import type { Fleet } from "./fleet.ts";
import type { FleetModels } from "./fleet_models.ts";
import { reap } from "./leases.ts";
import { Live } from "./live.ts";
import type { Overview } from "./postgres_store.ts";
import { coalesced, pause, repeat } from "./repeat.ts";
import { detachFiles, lorasOf } from "./requests.ts";
import { BEAT_MS, DEAD_MS } from "./roster.ts";

/** How often it is looked whether jobs have ended of which no news came, in milliseconds. */
const LOOK_MS = 2000;
/** How old what is known of the queue may be while news of it come, in milliseconds. */
const FRESH_MS = 250;
const MAX_PLACES = 2000;
/** How long an answer waits for a worker to cancel a job, and for it to let go of the job's files, in milliseconds. */
const CANCEL_MS = 2000;
const RELEASE_MS = 35_000;
/** How often it is looked for the end of a job that is waited for, in milliseconds. */
const POLL_MS = 100;

interface FleetQueueOptions {
  readonly fleet: Fleet;
  readonly models: FleetModels;
  readonly storage: ResultStorage;
  /** Holds the files of requests until workers find them in the database. */
  readonly inputRoot: string;
  /** Most jobs that wait in the whole fleet; those that run do not count. */
  readonly maxQueue: number;
  /** Prepares jobs of a dead server that were not ready. */
  readonly adopt: (jobs: readonly JobRecord[]) => Promise<void>;
}

/** The queue of a fleet, as one of its servers sees it. Its numbers are those of the whole fleet. */
export class FleetQueue implements Queue {
  readonly #options: FleetQueueOptions;
  readonly #fleet: Fleet;
  readonly #watchers = new JobWatchers();
  readonly #live: Live;
  /** Records of jobs whose ends are waited for here; undefined where one is deleted. */
  readonly #ends = new Map<string, PromiseWithResolvers<JobRecord | undefined>>();
  /** Ids of jobs whose clients wait for their answer. */
  readonly #held = new Set<string>();
  readonly #endListeners: ((id: string) => void)[] = [];
  readonly #closing = new AbortController();
  readonly #refresh = coalesced(() => this.#readQueue());
  #now: Overview = { waiting: [], running: [], depth: 0, seconds: new Map() };
  #isStarted = false;

  constructor(options: FleetQueueOptions) {
    this.#options = options;
    this.#fleet = options.fleet;
    const { bell, database } = options.fleet;
    this.#live = new Live(database);
    bell.on("denoise_jobs", (news) => this.#hear(news));
    bell.on("denoise_live", (news) => void this.#hearLive(news).catch(() => {}));
    bell.onUp(() => void this.#look().catch(() => {}));
  }

  get waiting(): number {
    return this.#now.depth;
  }

  get running(): readonly string[] {
    return this.#now.running;
  }

  get places(): number {
    return this.#fleet.roster.workers.reduce((sum, { places }) => sum + places, 0);
  }

  get secondsPerJob(): number {
    const times = [...this.#now.seconds.values()];
    return times.length === 0 ? 2 : times.reduce((sum, time) => sum + time) / times.length;
  }

  order(): string[] {
    return this.#now.waiting;
  }

  start(): void {
    this.#isStarted = true;
    const { signal } = this.#closing;
    const { store, member, database, tellAway } = this.#fleet;
    void repeat(signal, () => LOOK_MS, () => this.#look(), tellAway);
    void repeat(signal, () => BEAT_MS, async () => {
      await reap(database);
      const left = await store.adopt(member, DEAD_MS);
      if (left.length > 0) await this.#options.adopt(left);
    }, tellAway);
  }

  async add<T>(job: NewJob<T>): Promise<QueuedJob<T>> {
    if (this.#closing.signal.aborted) throw stopping();
    if (job.signal?.aborted) throw cancelled();
    const controller = new AbortController();
    const isReady = (job.request as { enhancePrompt?: boolean } | null)?.enhancePrompt !== true;
    if (!job.isRecorded) {
      if (!await this.#enqueue(job, isReady)) throw this.#full();
      void new InputFolder(this.#options.inputRoot, job.id).remove();
    }
    const outcome = this.#wait(job);
    if (job.signal) this.#held.add(job.id);
    const onAbort = () => void this.cancel(job.id).catch(this.#fleet.tellAway);
    job.signal?.addEventListener("abort", onAbort, { once: true });
    outcome.catch(() => {}).finally(() => {
      this.#held.delete(job.id);
      controller.abort(cancelled());
      job.signal?.removeEventListener("abort", onAbort);
    });
    // It may have been aborted while it was queued.
    if (job.signal?.aborted) onAbort();
    const prepared = isReady ? Promise.resolve() : this.#prepare(job, controller.signal);
    prepared.catch(() => {});
    return { prepared, outcome };
  }

  async join<T>(job: Pick<NewJob<T>, "id" | "kind" | "restore">): Promise<T> {
    if (this.#closing.signal.aborted) throw stopping();
    const outcome = this.#wait(job);
    // Its end may be past.
    void this.#look().catch(() => {});
    return await outcome;
  }

  watch(id: string, watcher: (event: JobEvent) => void): () => void {
    const stop = this.#watchers.watch(id, watcher);
    // Another server may have told its watchers before this one came.
    void this.#live.read(id).then((events) => {
      for (const event of events) watcher(event);
    }).catch(() => {});
    return stop;
  }

  onEnd(listener: (id: string) => void): void {
    this.#endListeners.push(listener);
  }

  cancel(id: string): Promise<boolean> {
    return this.#cancel(id, CANCEL_MS);
  }

  cancelAndWait(id: string): Promise<boolean> {
    return this.#cancel(id, RELEASE_MS);
  }

  /** Asks a job's worker to cancel it, and waits a while for that; whether the job has ended, or is not there. */
  async #cancel(id: string, patienceMs: number): Promise<boolean> {
    const { store } = this.#fleet;
    await store.requestCancel(id);
    for (const end = performance.now() + patienceMs;;) {
      const status = (await store.statuses([id])).get(id);
      if (status === undefined || isEnd(status)) return true;
      if (performance.now() > end) return false;
      await delay(POLL_MS);
    }
  }

  /** The fleet goes on; only jobs whose clients wait for their answer are given up. */
  async close(graceMs: number): Promise<void> {
    this.#closing.abort();
    for (const end = performance.now() + graceMs; performance.now() < end && this.#held.size > 0;) {
      await this.#look().catch(() => {});
      await delay(POLL_MS);
    }
    await Promise.all([...this.#held].map((id) => this.cancel(id).catch(() => {})));
    for (const { reject } of this.#ends.values()) reject(stopping());
    await this.#tellEnds().catch(() => {});
  }

  async #enqueue<T>(job: NewJob<T>, isReady: boolean): Promise<boolean> {
    const { maxQueue, models } = this.#options;
    const { request, files } = detachFiles(job.request);
    const { seeds = [] } = (request ?? {}) as { seeds?: number[] };
    const each = this.#now.seconds.get(job.model ?? "") ?? this.secondsPerJob;
    const routed = {
      loras: lorasOf(request),
      memory: await models.memoryFor(job.model, job.request).catch(() => 0),
      seconds: each * Math.max(1, seeds.length),
      front: this.#fleet.member,
      inputs: files,
    };
    try {
      const queued = { ...job, request, isReady, ...routed };
      return await this.#fleet.store.enqueue(queued, maxQueue, this.places);
    } catch (error) {
      throw error instanceof RepeatedRequestError ? error : storageFailed(error);
    }
  }

  async #wait<T>(job: Pick<NewJob<T>, "id" | "kind" | "restore">): Promise<T> {
    const end = this.#ends.get(job.id) ?? Promise.withResolvers();
    this.#ends.set(job.id, end);
    try {
      return await outcomeOf(job, await end.promise);
    } finally {
      if (this.#ends.get(job.id) === end) this.#ends.delete(job.id);
    }
  }

  async #prepare<T>(job: NewJob<T>, signal: AbortSignal): Promise<void> {
    const { store } = this.#fleet;
    try {
      const change = await unlessAborted(signal, job.prepare?.(signal) ?? Promise.resolve({}));
      await store.makeReady(job.id, change);
    } catch (error) {
      await store.update(job.id, endOf(error));
      this.#ends.get(job.id)?.reject(error);
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
      this.#ends.get(id)?.resolve(undefined);
    } else void this.#learn(id, status as JobStatus);
  }

  async #learn(id: string, status: JobStatus): Promise<void> {
    const waiting = isEnd(status) ? this.#ends.get(id) : undefined;
    try {
      waiting?.resolve(await this.#fleet.store.get(id));
      this.#watchers.tell(id, { type: "status", status });
    } catch {
      // It is looked for again.
    }
  }

  /** News of how far a job is: its progress, the word `preview`, or `output` and what that is. */
  async #hearLive(news: string): Promise<void> {
    const [id = "", kind] = news.split(" ", 2);
    if (!this.#watchers.isWatched(id)) return;
    if (kind === "preview") {
      const events = await this.#live.read(id);
      for (const event of events) if (event.type === kind) this.#watchers.tell(id, event);
    } else {
      const type = kind === "output" ? kind : "progress";
      const rest = news.slice(id.length + 1 + (kind === "output" ? kind.length : 0));
      this.#watchers.tell(id, { type, ...JSON.parse(rest) } as JobEvent);
    }
  }

  /** Looks for ends and changes of which no news came. */
  async #look(): Promise<void> {
    this.#beFresh();
    const ids = [...new Set([...this.#ends.keys(), ...this.#watchers.watched])];
    if (ids.length === 0) return;
    const known = await this.#fleet.store.statuses(ids);
    for (const id of ids) {
      const status = known.get(id);
      if (status === undefined) this.#hear(`${id} deleted`);
      else if (isEnd(status)) await this.#learn(id, status);
    }
  }

  #beFresh(): void {
    if (this.#isStarted) void this.#refresh();
  }

  /** Looks how the queue is, at most once in a while, and which ends are to be told. */
  async #readQueue(): Promise<void> {
    const { signal } = this.#closing;
    if (signal.aborted) return;
    try {
      this.#now = await this.#fleet.store.overview(MAX_PLACES);
      await this.#tellEnds();
    } catch (error) {
      if (!signal.aborted) this.#fleet.tellAway(error);
    }
    await pause(FRESH_MS, signal);
  }

  /** Tells the listeners here of the ends that are given to this server. */
  async #tellEnds(): Promise<void> {
    const { store, tellAway } = this.#fleet;
    for (const record of await store.untold()) {
      for (const listener of this.#endListeners) listener(record.id);
      const isDone = record.status === "completed";
      if (!isDone) void removeResults(record, this.#options.storage).catch(tellAway);
    }
  }

  #full(): ServiceError {
    const next = this.secondsPerJob / Math.max(1, this.places);
    const seconds = Math.min(120, Math.max(1, Math.ceil(next)));
    const message =
      `Cannot queue the request: too many wait already; the fleet takes ${this.#options.maxQueue}, ` +
      `and of one client as many as there are places left; try again in ${seconds} s`;
    return new ServiceError("queue_full", message, { retryAfter: seconds });
  }
}

/** Removes what a worker that died may have kept of a job that has failed or was cancelled. */
async function removeResults(
  { id, kind, request }: JobRecord,
  storage: ResultStorage,
): Promise<void> {
  const isVideo = kind === "video";
  const { format } = request as ImageRequest;
  const ending = isVideo
    ? videoFormat(request as VideoRequest)
    : format === "jpeg"
    ? "jpg"
    : format;
  const { length } = isVideo
    ? (request as VideoRequest).seeds
    : outputSeeds(request as ImageRequest);
  const names = length > 1 ? Array.from({ length }, (_, index) => `${id}_${index}`) : [id];
  for (const name of names) await storage.removeNamed(`${name}.${ending}`);
}
