/**
 * Who watches which job.
 *
 * @module
 */

import { isEnd, type JobEvent } from "./job.ts";

/** Passes the events of jobs on; a job's end is its last one. */
export class JobWatchers {
  readonly #watchers = new Map<string, Set<(event: JobEvent) => void>>();

  /**
   * Watches a job.
   *
   * @param id of a job that has not ended
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
   * Tells all who watch a job.
   *
   * @param id of the job
   * @param event what happened
   */
  tell(id: string, event: JobEvent): void {
    for (const watcher of this.#watchers.get(id) ?? []) {
      try {
        watcher(event);
      } catch {
        // Whoever watches must not end the work.
      }
    }
    if (event.type === "status" && isEnd(event.status)) this.#watchers.delete(id);
  }
}
