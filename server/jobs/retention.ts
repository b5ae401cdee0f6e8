/** Removing results when their time has come. */

import { Stretch } from "../http/body.ts";
import { DAMAGED, type JobEntry, type JobStore, type RecordBounds } from "./job_store.ts";
import type { Services } from "../services.ts";
import type { ResultStorage } from "../storage/result_storage.ts";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { isEnd } from "./job.ts";
import type { JobResult } from "./outputs.ts";
import { InputFolder } from "../inputs/input_folder.ts";
import { bytesOf, filesOf } from "../inputs/kept_inputs.ts";

/** Records of one sweep that are read at once. */
const BATCH = 100;
/** Time between two sweeps, in milliseconds. */
const SWEEP_MS = 10 * 60 * 1000;
/** Jobs without a result that are kept: whoever queues and cancels makes as many as they like. */
const MAX_UNFINISHED = 10_000;

/**
 * Removes what servers that were killed left behind, now and from time to time, and results whose time has come, for
 * the first time when a while has passed: a clock that is wrong at the start may be right by then. A clock that jumps
 * ahead later is believed no sooner than after as much time as it jumped.
 *
 * @param services records, files and for how long they are kept
 * @param options `aloneSince`: when this server started, if no other one shared its folder then, in Unix milliseconds;
 * `everyMs`: time between two sweeps
 */
export function startSweeping(
  services: Pick<Services, "store" | "storage" | "settings" | "inputRoot" | "log">,
  { aloneSince, everyMs = SWEEP_MS }: {
    readonly aloneSince?: number | undefined;
    readonly everyMs?: number;
  } = {},
): () => void {
  const { store, storage, settings, inputRoot, log } = services;
  const believe = slowClock();
  let isStopped = false;
  let isAtWork = false;
  const run = async (isFirst: boolean) => {
    if (isAtWork) return;
    isAtWork = true;
    try {
      const now = believe();
      await removeLeftInputs(inputRoot, store, {
        now: isFirst ? -Infinity : now,
        ...(aloneSince === undefined ? {} : { aloneSince }),
      });
      const stretch = new Stretch();
      await storage?.clean(async (name) => {
        await stretch.pause();
        return await isLeftOver(name, store);
      });
      if (isFirst) return;
      const ms = settings.retainMs > 0 ? settings.retainMs + Date.now() - now : Infinity;
      const removed = await sweep(store, storage, { ms, unfinished: MAX_UNFINISHED });
      if (removed > 0) log(`Removed ${removed} jobs whose time had come`);
      const { retainBytes } = settings;
      if (retainBytes === undefined) return;
      const beyond = await jobsBeyond(store, retainBytes);
      const count = await removeJobs(beyond, store, storage);
      if (count > 0) {
        log(`Removed ${count} of the oldest results: together they may take ${retainBytes} bytes`);
      }
    } catch (error) {
      // The records may be closed by now.
      if (isStopped) return;
      log(`Cannot remove old results: ${error instanceof Error ? error.message : error}`);
    } finally {
      isAtWork = false;
    }
  };
  void run(true);
  const timer = setInterval(() => void run(false), everyMs);
  return () => {
    isStopped = true;
    clearInterval(timer);
  };
}

/** Unix milliseconds that run at twice the speed of time at most, whatever the clock does. */
function slowClock(): () => number {
  let [time, at] = [Date.now(), performance.now()];
  return () => {
    const now = performance.now();
    [time, at] = [Math.min(Date.now(), time + 2 * (now - at)), now];
    return time;
  };
}

/** Whether a file among the results came of a job that did not get to its end, or was deleted: no record leads to it, and none will. */
export async function isLeftOver(name: string, store: Pick<JobStore, "get">): Promise<boolean> {
  const id = /^((?:img|video)_[0-9a-f-]{36})[_.]/.exec(name)?.[1];
  if (id === undefined) return false;
  const { status, error, result } = await store.get(id) ?? {};
  // Nobody knows any more what became of that job.
  if (error?.code === DAMAGED.code) return false;
  if (status === "failed" || status === "cancelled") return true;
  const { files = [], deleted = [] } = (result ?? {}) as Partial<JobResult>;
  if (deleted.some((index) => files[index]?.name === name)) return true;
  // A job that is to run again writes its file again.
  return name.endsWith(".part") && status !== "in_progress";
}

async function sweep(
  store: JobStore,
  storage: ResultStorage | undefined,
  bounds: RecordBounds,
): Promise<number> {
  let removed = 0;
  for (;;) {
    const jobs = await store.expired(bounds, BATCH);
    const count = await removeJobs(jobs, store, storage);
    removed += count;
    if (count === 0 || count < jobs.length) return removed;
  }
}

/** Completed jobs that begin where the newest ones have files of so many bytes, the oldest last. */
async function jobsBeyond(store: JobStore, bytes: number): Promise<JobEntry[]> {
  const beyond: JobEntry[] = [];
  const stretch = new Stretch();
  let total = 0;
  let after: string | undefined;
  for (;;) {
    const jobs = await store.list({
      statuses: ["completed"],
      limit: BATCH,
      ...(after === undefined ? {} : { after }),
    });
    for (const job of jobs) {
      await stretch.pause();
      total += bytesOf(job.result);
      if (total > bytes) beyond.push(job);
    }
    after = jobs.at(-1)?.id;
    if (after === undefined) return beyond;
  }
}

/** A file that cannot be removed keeps its record, and is tried again by the next sweep. */
async function removeJobs(
  jobs: readonly Pick<JobEntry, "id" | "result">[],
  store: JobStore,
  storage: ResultStorage | undefined,
): Promise<number> {
  let removed = 0;
  const stretch = new Stretch();
  for (const { id, result } of jobs) {
    await stretch.pause();
    try {
      for (const file of filesOf(result)) await storage?.remove(file);
    } catch {
      continue;
    }
    await store.delete(id);
    removed++;
  }
  return removed;
}

/** How long a request may take to arrive, in milliseconds: until then it has no record. */
const MAX_ARRIVAL_MS = 24 * 60 * 60 * 1000;

/**
 * Removes the files of jobs that have ended, and of requests that never became jobs. Another server
 * may share the folder, and be in the middle of an upload.
 *
 * @param options when it is, and since when no other server has shared the folder, if that is known; both in
 * Unix milliseconds
 */
export async function removeLeftInputs(
  root: string,
  store: JobStore,
  { now = Date.now(), aloneSince = -Infinity }: { now?: number; aloneSince?: number } = {},
): Promise<void> {
  // What came before this server did, when there was no other, will never become a job.
  const before = Math.max(aloneSince, now - MAX_ARRIVAL_MS);
  const names = await readdir(root).catch(() => []);
  for (const name of names) {
    if (!/^(?:img|video)_[\w-]+$/.test(name)) continue;
    const status = (await store.get(name))?.status;
    const isLeft = status === undefined
      ? await stat(join(root, name)).then(({ mtimeMs }) => mtimeMs < before, () => false)
      : isEnd(status);
    if (isLeft) await new InputFolder(root, name).remove();
  }
}
