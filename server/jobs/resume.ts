/** Running jobs again that a dead server left behind. */

import { endOf, isStopping } from "./job_end.ts";
import { DAMAGED, INTERRUPTED, type JobError, type JobRecord } from "./job_store.ts";
import { toApiError } from "../http/respond.ts";
import type { Services } from "../services.ts";

/** Queues jobs that were left. Their ends are in their records. */
export async function resumeJobs(
  { store, queue, runners, log }: Services,
  records: readonly JobRecord[],
): Promise<void> {
  let queued = 0;
  for (const record of records) {
    const fail = (error: JobError) =>
      store.update(record.id, { status: "failed", endedAt: Date.now(), error });
    const job = runners.again(record);
    if (record.error?.code === DAMAGED.code) await fail(DAMAGED);
    else if (!job) {
      const message = `Cannot run the job again: this server makes no "${record.kind}"`;
      await fail({ code: INTERRUPTED.code, message });
    } else {
      try {
        const { outcome } = await queue.add(job);
        queued++;
        outcome.catch((error) => toApiError(error, record.id, log));
      } catch (error) {
        // What a stopping server refuses is left for the next one.
        if (!isStopping(error)) await store.update(record.id, endOf(error));
      }
    }
  }
  if (queued > 0) log(`Queued ${queued} jobs again that were left unfinished`);
}
