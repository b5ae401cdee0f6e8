/** What a job is: what it may do while it runs, what lists show of it, and who watches it. */

import type { Progress, TaskType } from "../../engine/types.ts";
import type { StoredFile } from "../storage/result_storage.ts";
import type { JobChange, JobEntry, JobRecord, JobStatus, NewRecord } from "./job_store.ts";
import { shorten } from "../../generation/texts.ts";
import { chooseWords } from "../../generation/wildcards.ts";
import { ApiError, type ErrorStatus, ServiceError } from "../contract/errors.ts";
import { answerOf } from "../http/respond.ts";

/** What a running job may use. */
export interface JobContext {
  readonly id: string;
  readonly signal: AbortSignal;
  /** Records how far the work is, and tells watchers. */
  progress(progress: JobProgress): void;
  /** Shows an unfinished result to watchers. */
  preview(preview: JobPreview): void;
  /** Shows a finished result to watchers, before all of them are. */
  output(output: JobOutput): void;
}

/** How far a job is. */
export interface JobProgress {
  /** What the GPU works on. */
  stage?: Progress["stage"];
  /** Finished share of the work, 0 to 1. */
  fraction: number;
  /** Denoising steps that are finished, of all outputs. */
  step?: number;
  /** Denoising steps altogether. */
  totalSteps?: number;
  /** Expected time to the end, in seconds. */
  etaSeconds?: number;
}

/** Whole percent, 0 to 99: 100 is told with the results, which are still to be stored. */
export function percentOf({ fraction }: JobProgress): number {
  return Math.floor(Math.min(0.99, Math.max(0, fraction)) * 100);
}

/** A job as it was when it was queued, which answers its request however soon it begins; a rewritten prompt stays. */
export function asQueued(job: JobRecord): JobRecord {
  const later = { startedAt: null, endedAt: null, result: null, error: null };
  return { ...job, ...later, status: "queued", progress: 0 };
}

interface JobPreview {
  output: number;
  /** Which preview of that output it is, from 0. */
  index: number;
  /** An image. */
  bytes: Uint8Array<ArrayBuffer>;
  contentType: string;
}

/** One of several results, as soon as it is finished. */
export interface JobOutput {
  index: number;
  /** The file; absent where another process made it, and `file` is. */
  bytes?: Uint8Array<ArrayBuffer>;
  /** File of the result; absent when results are not kept. */
  file?: StoredFile;
}

/** What happens to a job. */
export type JobEvent =
  | { readonly type: "status"; readonly status: JobStatus }
  | ({ readonly type: "progress" } & JobProgress)
  | ({ readonly type: "preview" } & JobPreview)
  | ({ readonly type: "output" } & JobOutput);

/** A job to be queued, under an id that its results are kept under. */
export interface NewJob<T> extends NewRecord {
  /** Whose job it is: clients take turns. Jobs without a client share one turn. */
  client?: string;
  /** Public name of the model that it needs; any place will do by default. */
  model?: string;
  /** Higher goes first; 0 by default. */
  priority?: number;
  /** Whether the job's record is there already. */
  isRecorded?: boolean;
  /** Done before its turn, beside other jobs: must not need the GPU. Gives what is to be recorded. */
  prepare?: (signal: AbortSignal) => Promise<JobChange>;
  work: (context: JobContext) => Promise<T>;
  /** What to record of the outcome, a JSON value. */
  toRecord: (outcome: T) => unknown;
  /** The outcome as it would have been here, from the record of a job that another process has completed. */
  restore?: (record: JobRecord) => Promise<T>;
  /** Takes back the outcome of a job that was cancelled or deleted. */
  discard?: (outcome: T) => Promise<void>;
  /** Cancels the job, waiting or running. */
  signal?: AbortSignal;
}

export interface QueuedJob<T> {
  /** Resolves when it needs nothing more but its turn; rejects as `outcome` does. */
  readonly prepared: Promise<void>;
  /** Rejects with what `prepare` or `work` threw, or with an `AbortError` when the job was cancelled. */
  readonly outcome: Promise<T>;
}

export function isEnd(status: JobStatus): boolean {
  return status !== "queued" && status !== "in_progress";
}

/** Passes the events of jobs on; a job's end is its last one. */
export class JobWatchers {
  readonly #watchers = new Map<string, Set<(event: JobEvent) => void>>();
  /** How far each running job is, its latest preview, and what of it is finished. */
  readonly #latest = new Map<string, Map<string, JobEvent>>();

  /** A late watcher is told at once how far the job is, and has its latest preview and what is finished. What it throws is dropped. */
  watch(id: string, watcher: (event: JobEvent) => void): () => void {
    const watchers = this.#watchers.get(id) ?? new Set();
    this.#watchers.set(id, watchers.add(watcher));
    for (const event of this.#latest.get(id)?.values() ?? []) attempt(() => watcher(event));
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(id) === watchers) this.#watchers.delete(id);
    };
  }

  /** Ids of the jobs that are watched. */
  get watched(): Iterable<string> {
    return this.#watchers.keys();
  }

  isWatched(id: string): boolean {
    return this.#watchers.has(id);
  }

  tell(id: string, event: JobEvent): void {
    if (event.type !== "status") {
      const latest = this.#latest.get(id) ?? new Map<string, JobEvent>();
      const what = event.type === "output" ? `${event.type} ${event.index}` : event.type;
      this.#latest.set(id, latest.set(what, event));
    }
    for (const watcher of this.#watchers.get(id) ?? []) attempt(() => watcher(event));
    if (event.type !== "status" || !isEnd(event.status)) return;
    this.#watchers.delete(id);
    this.#latest.delete(id);
  }
}

/** Watchers must not end the work. */
function attempt(call: () => void): void {
  try {
    call();
  } catch {
    // It is theirs.
  }
}

/** The part of a request that lists show; a JSON value. */
export interface JobSummary {
  /** Whose job it is, by a digest of the key; empty where no key is asked for. */
  owner: string;
  /** Public name of the model that made it. */
  model: string;
  prompt: string;
  taskType: TaskType;
  width: number;
  /** Number of rows. */
  height: number;
  seeds: number[];
  /** Paths and names of LoRAs, as the request had them; records of older versions have none. */
  loras?: string[];
  /** What each seed chose of a prompt with wildcards. */
  prompts?: string[];
}

/** Longest prompt that a list shows, in characters. */
const MAX_PROMPT = 300;

/** What lists show of a request. */
export function jobSummary(
  { prompt, wildcards, taskType, width, height, seeds, loras }:
    & Omit<JobSummary, "owner" | "model" | "loras" | "prompts">
    & { readonly wildcards?: true; readonly loras: readonly { readonly path: string }[] },
  model: string,
  owner: string,
): JobSummary {
  return {
    ...{ owner, model, prompt: shorten(prompt, MAX_PROMPT), taskType, width, height, seeds },
    ...(wildcards && {
      prompts: seeds.map((seed) => shorten(chooseWords(prompt, seed), MAX_PROMPT)),
    }),
    ...(loras.length > 0 && { loras: loras.map(({ path }) => shorten(path, MAX_PROMPT)) }),
  };
}

/** The client whose job one is; empty where no key is asked for. */
export function ownerOf(client: string, apiKeys: readonly string[]): string {
  return apiKeys.length === 0 ? "" : client;
}

/** Whether a job may be shown with all that it makes: it is the client's own, or no key is asked for. */
export function isOwn(
  job: Pick<JobEntry, "summary">,
  client: string,
  apiKeys: readonly string[],
): boolean {
  const { owner = "" } = (job.summary ?? {}) as Partial<JobSummary>;
  return apiKeys.length === 0 || owner === client;
}

/** Most UTF-16 units of an error that a record keeps. */
const MAX_MESSAGE_LENGTH = 4000;
/** The word for a failure that is not for clients. */
const INTERNAL_ERROR = "internal_error";

/** The reason of a job that its client gave up. */
export function cancelled(): DOMException {
  return new DOMException("The request was cancelled", "AbortError");
}

/** The reason of a job that a stopping server refuses or aborts. */
export function stopping(): ServiceError {
  const message = "Cannot take the request: the server is stopping";
  return new ServiceError("shutting_down", message, { retryAfter: 5 });
}

/** Whether it is the server's end that ended a job, as {@link stopping} says. */
export function isStopping(reason: unknown): boolean {
  return reason instanceof ServiceError && reason.failure === "shutting_down";
}

/** The end of a job that was not completed, for its record; what is not meant for clients is omitted. */
export function endOf(reason: unknown): JobChange {
  const endedAt = Date.now();
  if (reason instanceof DOMException && reason.name === "AbortError") {
    return { status: "cancelled", endedAt };
  }
  if (!(reason instanceof ServiceError || reason instanceof ApiError)) {
    const message = "Cannot finish the job: an internal error occurred";
    return { status: "failed", endedAt, error: { code: INTERNAL_ERROR, message } };
  }
  const code = isStopping(reason) ? "interrupted" : reason.code ?? "failed";
  const message = reason.message.slice(0, MAX_MESSAGE_LENGTH);
  const { status } = reason instanceof ApiError ? reason : answerOf(reason);
  return { status: "failed", endedAt, error: { code, message }, errorStatus: status };
}

/** What came of a job that another process ran. @throws what it failed with; an `AbortError` when it was cancelled or deleted */
export async function outcomeOf<T>(
  job: Pick<NewJob<T>, "id" | "kind" | "restore">,
  record: JobRecord | undefined,
): Promise<T> {
  if (!record || record.status === "cancelled") throw cancelled();
  if (record.status === "completed") {
    if (job.restore) return await job.restore(record);
    throw new TypeError(`Cannot restore the outcome of ${job.id}: a ${job.kind} has none`);
  }
  const { code, message } = record.error ?? { code: "failed", message: "Cannot finish the job" };
  if (code === INTERNAL_ERROR) {
    throw new Error(`Cannot finish ${job.id}: the log of the worker that ran it says why`);
  }
  const { errorStatus = 500 } = record;
  throw new ApiError(errorStatus as ErrorStatus, message, {
    code,
    ...(errorStatus === 503 ? { headers: { "retry-after": "5" } } : {}),
    ...(errorStatus === 500 ? { headers: { "x-should-retry": "false" } } : {}),
  });
}

/** Waits for something that does not heed a signal, or not at once; what becomes of it after the signal is dropped. */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, work]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Jobs that wait and run. Every job ends in its record: completed, failed or cancelled. */
export interface Queue {
  readonly waiting: number;
  /** Ids of the jobs that run, in the order in which they began. */
  readonly running: readonly string[];
  readonly places: number;
  /** Time that a job takes, in seconds, from the last ones. */
  readonly secondsPerJob: number;
  /** Ids of the jobs that wait, in the order in which they would run if no more came. */
  order(): string[];
  /**
   * Queues a job.
   *
   * @throws {ServiceError} when too many wait, the server stops, or the job cannot be recorded
   * @throws {RepeatedRequestError} when another job has its key
   * @throws {DOMException} named `AbortError` when the signal has fired already
   */
  add<T>(job: NewJob<T>): Promise<QueuedJob<T>>;
  /** Waits for the end of a job that is on record, queued by anyone; rejects with what it failed with. */
  join<T>(job: Pick<NewJob<T>, "id" | "kind" | "restore">): Promise<T>;
  /** The end of a job is its last event; what `watcher` throws is dropped. */
  watch(id: string, watcher: (event: JobEvent) => void): () => void;
  /** Called with the id of each job after its end is on record; in a fleet each end is told to one server alone. */
  onEnd(listener: (id: string) => void): void;
  /** A job that waits has ended when the promise resolves; nothing happens for one that has ended before. */
  cancel(id: string): Promise<unknown>;
  /** Waits until the job has let go of the GPU and of its files; false where it still runs after half a minute. */
  cancelAndWait(id: string): Promise<boolean>;
  /** Refuses jobs that wait; those that run may go on for `graceMs` milliseconds. */
  close(graceMs: number): Promise<void>;
}
