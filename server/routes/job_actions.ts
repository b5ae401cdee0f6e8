/** Cancelling a job and removing it, wherever it runs. */

import { ApiError } from "../contract/errors.ts";
import type { JobRecord } from "../jobs/job_store.ts";
import type { Services } from "../services.ts";
import type { StoredFile } from "../storage/result_storage.ts";

/** Cancels a job that has not ended. */
export async function cancelJob(
  job: JobRecord,
  { queue, store }: Services,
): Promise<JobRecord> {
  await queue.cancel(job.id);
  return await store.get(job.id) ?? job;
}

/**
 * Cancels a job, and removes its record and its files.
 *
 * @returns the record as it was at its end
 * @throws {ApiError} 409 while a worker of the fleet works on it
 */
export async function removeJob(job: JobRecord, services: Services): Promise<JobRecord> {
  if (!await services.queue.cancelAndWait(job.id)) {
    throw new ApiError(
      409,
      `Cannot delete the ${job.kind}: its worker still works on it; try again in a minute`,
      { code: "still_running", headers: { "retry-after": "60" } },
    );
  }
  const ended = await services.store.get(job.id) ?? job;
  const { files = [] } = (ended.result ?? {}) as { files?: StoredFile[] };
  // The record goes last: it is what leads to files that could not be removed.
  for (const file of files) await services.storage?.remove(file);
  await services.store.delete(job.id);
  return ended;
}
