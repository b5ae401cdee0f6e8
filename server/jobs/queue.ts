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
  /**
   * Waits for the end of a job that is on record, queued by anyone.
   *
   * @returns its outcome; rejects with what it failed with
   */
  join<T>(job: Pick<NewJob<T>, "id" | "kind" | "restore">): Promise<T>;
  /**
   * Watches a job; its end is its last event.
   *
   * @param watcher called with each event; what it throws is dropped
   */
  watch(id: string, watcher: (event: JobEvent) => void): () => void;
  /**
   * Listens to the ends of jobs. In a fleet each end is told to one server alone.
   *
   * @param listener called with the id of each job after its end is on record
   */
  onEnd(listener: (id: string) => void): void;
  /**
   * Cancels a job; one that waits has ended when the promise resolves.
   *
   * @param id of a job that waits or runs; nothing happens for others
   */
  cancel(id: string): Promise<unknown>;
  /**
   * Cancels a job and waits until it has let go of the GPU and of its files.
   *
   * @param id of a job that waits or runs; nothing happens for others
   * @returns false where it still runs after half a minute
   */
  cancelAndWait(id: string): Promise<boolean>;
  /**
   * Stops taking jobs.
   *
   * @param graceMs how long those that run may go on, in milliseconds
   */
  close(graceMs: number): Promise<void>;
}
