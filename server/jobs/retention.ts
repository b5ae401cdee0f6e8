/**
 * Removing results when their time has come.
 *
 * @module
 */

import { removeLeftInputs } from "../inputs/left_inputs.ts";
import type { JobStore } from "./job_store.ts";
import { DAMAGED } from "./job_store.ts";
import type { Services } from "../services.ts";
import type { ResultStorage, StoredFile } from "../storage/result_storage.ts";

/** Records of one sweep that are read at once. */
const BATCH = 100;
/** Time between two sweeps, in milliseconds. */
const SWEEP_MS = 10 * 60 * 1000;

/**
 * Sweeps now and from time to time; what servers that were killed left behind goes at once.
 *
 * @param services records, files and for how long they are kept
 * @param aloneSince when this server started, if no other one shared its folder then, in Unix milliseconds
 * @returns stops it
 */
export function startSweeping(services: Services, aloneSince?: number): () => void {
  const { store, storage, settings, inputRoot, log } = services;
  let isStopped = false;
  const run = async () => {
    try {
      await removeLeftInputs(inputRoot, store, aloneSince === undefined ? {} : { aloneSince });
      await storage?.clean((name) => isLeftOver(name, store));
      const removed = settings.retainMs > 0
        ? await sweep(store, storage, Date.now() - settings.retainMs)
        : 0;
      if (removed > 0) log(`Removed ${removed} results whose time had come`);
    } catch (error) {
      // The records may be closed by now.
      if (isStopped) return;
      log(`Cannot remove old results: ${error instanceof Error ? error.message : error}`);
    }
  };
  void run();
  const timer = setInterval(run, SWEEP_MS);
  return () => {
    isStopped = true;
    clearInterval(timer);
  };
}

/**
 * Whether a file among the results came of a job that did not get to its end.
 *
 * @param name of the file
 * @param store records
 * @returns true when no record leads to it, and none will; false for files that are not ours
 */
export async function isLeftOver(name: string, store: Pick<JobStore, "get">): Promise<boolean> {
  const id = /^((?:img|video)_[0-9a-f-]{36})[_.]/.exec(name)?.[1];
  if (id === undefined) return false;
  const { status, error } = await store.get(id) ?? {};
  // Nobody knows any more what became of that job.
  if (error?.code === DAMAGED.code) return false;
  if (status === "failed" || status === "cancelled") return true;
  // A job that is to run again writes its file anew.
  return name.endsWith(".part") && status !== "in_progress";
}

/**
 * Removes records and files of jobs that ended long ago. A file that cannot be removed keeps its
 * record, and is tried again by the next sweep.
 *
 * @param store records
 * @param storage files; absent when none are kept
 * @param before end of the time that is over, in Unix milliseconds
 * @returns number of records removed
 */
async function sweep(
  store: JobStore,
  storage: ResultStorage | undefined,
  before: number,
): Promise<number> {
  let removed = 0;
  for (;;) {
    const jobs = await store.endedBefore(before, BATCH);
    let left = jobs.length;
    for (const { id, result } of jobs) {
      const { files = [] } = (result ?? {}) as { files?: StoredFile[] };
      try {
        for (const file of files) await storage?.remove(file);
      } catch {
        continue;
      }
      await store.delete(id);
      left--;
      removed++;
    }
    if (jobs.length < BATCH || left > 0) return removed;
  }
}
