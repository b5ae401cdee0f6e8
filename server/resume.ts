/**
 * Running jobs again that a dead server left behind.
 *
 * @module
 */

import { toApiError } from "./respond.ts";
import type { Services } from "./services.ts";

/**
 * Queues every job that was left, the oldest first. Their ends are in their records.
 *
 * @param services records, queue and what jobs do
 */
export function resumeJobs({ store, queue, runners, log }: Services): void {
  const jobs = store.adopted();
  for (const record of jobs) {
    const job = runners.again(record);
    if (job) {
      queue.run(job).catch((error) => toApiError(error, record.id, log));
      continue;
    }
    store.update(record.id, {
      status: "failed",
      endedAt: Date.now(),
      error: {
        code: "interrupted",
        message: `Cannot run the job again: this server makes no "${record.kind}"`,
      },
    });
  }
  if (jobs.length > 0) log(`Queued ${jobs.length} jobs again that were left unfinished`);
}
