/** Who watches which job. */

import { isEnd, type JobEvent } from "./job.ts";

/** Passes the events of jobs on; a job's end is its last one. */
export class JobWatchers {
  readonly #watchers = new Map<string, Set<(event: JobEvent) => void>>();
  /** How far each running job is, its latest preview, and what of it is finished. */
  readonly #latest = new Map<string, Map<string, JobEvent>>();

  /**
   * Watches a job. Whoever comes late is told at once how far it is, and has its latest preview and what is finished.
   *
   * @param watcher called with each event; what it throws is dropped
   */
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

  /** Tells all who watch a job. */
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

/** Whoever watches must not end the work. */
function attempt(call: () => void): void {
  try {
    call();
  } catch {
    // It is theirs.
  }
}
