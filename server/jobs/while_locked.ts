/**
 * Waiting for a SQLite database that another program has locked, without holding up the thread: a
 * busy timeout of SQLite's own would.
 */

import { RecordsBusyError } from "../contract/errors.ts";

/** Longest pause between two attempts, in milliseconds. */
const MAX_PAUSE_MS = 100;

/**
 * Does something to a database, again and again while it is locked. The first attempt is made at
 * once, before anything else can happen.
 *
 * @param work one attempt; its statements must have a busy timeout of zero
 * @param patienceMs how long to go on, in milliseconds
 * @returns what the attempt gave that found no lock
 * @throws {RecordsBusyError} when it was locked all the time; what `work` throws otherwise
 */
export async function whileLocked<T>(work: () => T, patienceMs: number): Promise<T> {
  const end = performance.now() + patienceMs;
  for (let pause = 2;; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
    try {
      return work();
    } catch (error) {
      if (!isLocked(error)) throw error;
      if (performance.now() + pause > end) {
        if (error instanceof RecordsBusyError) throw error;
        throw new RecordsBusyError(
          `Cannot use the records of jobs: another program has had them locked for ${
            patienceMs / 1000
          } s; end it, or try again later`,
          { cause: error },
        );
      }
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** Whether a lock was met: SQLite gives no code, but these words. */
function isLocked(error: unknown): boolean {
  return error instanceof RecordsBusyError ||
    error instanceof Error && /^database (?:table |schema )?is locked/.test(error.message);
}
