/** What routes see of a queue, be it this server's own or that of a fleet. */

import type { JobEvent, NewJob, QueuedJob } from "./job.ts";

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
