/** Cancelling a job and removing it, whichever server works on it. */

import { ApiError } from "../contract/errors.ts";
import type { JobRecord } from "../jobs/job_store.ts";
import { cancelAndWait, cancelElsewhere } from "../jobs/neighbours.ts";
import type { Services } from "../services.ts";
import type { StoredFile } from "../storage/result_storage.ts";

/** How long an answer waits for another server to cancel a job, or to let go of its files, in milliseconds. */
const CANCEL_MS = 2000;
const DELETE_MS = 35_000;

/** Cancels a job that has not ended. */
export async function cancelJob(
  job: JobRecord,
  { queue, store }: Services,
): Promise<JobRecord> {
  if (!await queue.cancel(job.id)) await cancelElsewhere(store, job.id, CANCEL_MS);
  return await store.get(job.id) ?? job;
}

/**
 * Cancels a job, and removes its record and its files.
 *
 * @returns the record as it was at its end
 * @throws {ApiError} 409 while another server works on it
 */
export async function removeJob(job: JobRecord, services: Services): Promise<JobRecord> {
  if (!await cancelAndWait(services, job.id, DELETE_MS)) {
    throw new ApiError(
      409,
      `Cannot delete the ${job.kind}: another server still works on it; try again in a minute`,
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
