/**
 * Servers that share their records: what one is asked to cancel may be another's job, and the jobs
 * of one that died are the others' to end.
 */

import { isEnd } from "./job.ts";
import { cancelled, endOf } from "./job_end.ts";
import type { Queue } from "./queue.ts";
import { type JobRecord, type JobStore, RecordsBusyError } from "./job_store.ts";

/** How often a server looks whether others ask it to cancel its jobs, in milliseconds. */
const LOOK_MS = 500;
/** After how many looks it looks for servers that died. */
const LOOKS_PER_REAP = 10;
/** How often it is looked whether another server has ended a job, in milliseconds. */
const POLL_MS = 100;

/** What servers share, and what each has for itself. */
interface Neighbourhood {
  /** Records of all. */
  readonly store: JobStore;
  /** Jobs of this server. */
  readonly queue: Queue;
}

/**
 * Cancels a job, whichever server has it, and waits for its end.
 *
 * @param patienceMs how long another server may take, in milliseconds
 * @returns whether it has ended, or is there no more
 */
export async function cancelAndWait(
  { store, queue }: Neighbourhood,
  id: string,
  patienceMs: number,
): Promise<boolean> {
  if (await queue.cancelAndWait(id)) return true;
  return await cancelElsewhere(store, id, patienceMs);
}

/**
 * Asks whichever other server has a job to cancel it, and waits for its end.
 *
 * @param id of a job that is not in this server's queue
 * @param patienceMs how long the other server may take, in milliseconds
 * @returns whether it has ended, or is there no more
 */
export async function cancelElsewhere(
  store: JobStore,
  id: string,
  patienceMs: number,
): Promise<boolean> {
  if (await hasEnded(store, id)) return true;
  await store.requestCancel(id);
  for (const end = performance.now() + patienceMs;;) {
    if (await hasEnded(store, id)) return true;
    if (performance.now() > end) return false;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** What is done with what other servers ask for. */
interface WatchOptions {
  /** Is given the jobs of a dead server that this one has taken over. */
  readonly take: (jobs: readonly JobRecord[]) => Promise<void>;
  /** Is told why the records could not be read. */
  readonly fail: (error: unknown) => void;
  /** How often to look, in milliseconds. */
  readonly lookMs?: number;
}

/** Looks from time to time what other servers ask for, and which of them died. */
export function watchNeighbours(
  { store, queue }: Neighbourhood,
  { take, fail, lookMs = LOOK_MS }: WatchOptions,
): () => void {
  let looks = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isStopped = false;
  const look = async () => {
    try {
      if (queue.waiting > 0 || queue.running.length > 0) await heed(store, queue);
      if (++looks % LOOKS_PER_REAP === 0) await take(await store.reap());
    } catch (error) {
      // The records may be closed by now; those that are busy are looked at again.
      if (!isStopped && !(error instanceof RecordsBusyError)) fail(error);
    }
    if (!isStopped) timer = setTimeout(look, lookMs);
  };
  timer = setTimeout(look, lookMs);
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}

/** Cancels what others ask this server to cancel. */
async function heed(store: JobStore, queue: Queue): Promise<void> {
  for (const id of await store.cancelRequests()) {
    if (await queue.cancel(id) || await hasEnded(store, id)) continue;
    // A row of ours that the queue knows nothing of would never end.
    await store.update(id, endOf(cancelled()));
  }
}

async function hasEnded(store: JobStore, id: string): Promise<boolean> {
  const record = await store.get(id);
  return record === undefined || isEnd(record.status);
}
