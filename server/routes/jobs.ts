/** `/v1/jobs`: the queue, and each job with what was asked for and what came of it. */

import type { Context } from "hono";
import { z } from "zod";
import { ApiError } from "../contract/errors.ts";
import { queryOf, validate } from "../contract/validate.ts";
import { jobListItem, jobRecord } from "./job_record.ts";
import type { JobEntry, JobRecord, JobStore } from "../jobs/job_store.ts";
import { isEnd, isOwn, type Queue } from "../jobs/job.ts";
import type { JobResult } from "../jobs/outputs.ts";
import type { AppEnv } from "../services.ts";
import type { ServerSettings } from "../settings.ts";
import { filesOf, resultsOf } from "../inputs/kept_inputs.ts";
import { jobEvents } from "./job_events.ts";
import type { ResultStorage } from "../storage/result_storage.ts";

/** Ended jobs that are listed where the request does not say, and the most of them. */
const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 200;

const listSchema = z.object({
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).optional(),
});

/** What routes of jobs need, of a server or in a page that has none. */
export interface JobServices {
  readonly store: Pick<JobStore, "get" | "list" | "update" | "delete">;
  readonly queue: Queue;
  readonly storage: Pick<ResultStorage, "link" | "remove"> | undefined;
  readonly settings: Pick<ServerSettings, "apiKeys" | "publicUrl">;
}

export async function retrieve(c: Context<AppEnv>, services: JobServices): Promise<Response> {
  return c.json(await show(await findJob(c, services), c, services));
}

/** Cancels a job and removes it. */
export async function remove(c: Context<AppEnv>, services: JobServices): Promise<Response> {
  const job = await removeJob(await findJob(c, services), services);
  return c.json({ ...await show(job, c, services), deleted: true });
}

/** What removes jobs and their outputs, of each job of a server one after the other. */
const removalsOf = new WeakMap<JobServices["store"], Map<string, Promise<unknown>>>();

async function inTurn<T>(
  id: string,
  { store }: JobServices,
  remove: () => Promise<T>,
): Promise<T> {
  const removals = removalsOf.get(store) ?? new Map<string, Promise<unknown>>();
  removalsOf.set(store, removals);
  const removal = (removals.get(id) ?? Promise.resolve()).catch(() => {}).then(remove);
  removals.set(id, removal);
  try {
    return await removal;
  } finally {
    if (removals.get(id) === removal) removals.delete(id);
  }
}

/** Removes one result of a finished job, or the job with its last one. */
export async function removeOutput(c: Context<AppEnv>, services: JobServices): Promise<Response> {
  const id = c.req.param("id") ?? "";
  return await inTurn(id, services, async () => {
    for (;;) {
      const job = await services.store.get(id);
      if (!job) throw noJob();
      if (!isEnd(job.status)) {
        throw new ApiError(
          409,
          `Cannot delete an output of the ${job.kind}: it is not finished; wait for it, or delete the job`,
          { code: "still_running" },
        );
      }
      const [index = ""] = /^\d{1,4}$/.exec(c.req.param("index") ?? "") ?? [];
      const outputs = resultsOf(job.result);
      const file = outputs.get(index === "" ? -1 : Number(index));
      if (!file) {
        throw new ApiError(404, "Output not found: it was deleted, or the job has no such output", {
          code: "not_found",
        });
      }
      if (outputs.size === 1) {
        const removed = await removeInTurn(job, services);
        return c.json({ ...await show(removed, c, services), deleted: true });
      }
      const { deleted = [], ...result } = job.result as JobResult;
      const change = { result: { ...result, deleted: [...deleted, Number(index)] } };
      // First the record: it must not lead to a file that is gone. Another server may delete of the same job.
      if (!await services.store.update(id, change, job.result)) continue;
      await services.storage?.remove(file);
      return c.json({ ...await show({ ...job, ...change }, c, services), deleted: false });
    }
  });
}

export async function cancel(c: Context<AppEnv>, services: JobServices): Promise<Response> {
  const job = await cancelJob(await findJob(c, services), services);
  return c.json(await show(job, c, services));
}

/** A job's way to its end, as server-sent events. */
export async function events(c: Context<AppEnv>, services: JobServices): Promise<Response> {
  const found = await findJob(c, services);
  return jobEvents(c, found, services, (job) => show(job, c, services));
}

/** A job for the client. */
export function show(
  job: JobRecord,
  c: Context<AppEnv>,
  services: JobServices,
): ReturnType<typeof jobRecord> {
  return jobRecord(job, contextOf(job, c, services));
}

export async function list(c: Context<AppEnv>, services: JobServices): Promise<Response> {
  const { queue, store } = services;
  const { after, limit = DEFAULT_LIMIT } = validate(listSchema, queryOf(c), "query");
  const ended = await store.list({
    statuses: ["completed", "failed", "cancelled"],
    // One more than is shown tells whether there are more.
    limit: limit + 1,
    ...(after === undefined ? {} : { after }),
  });
  const places = placesIn(queue);
  const jobs = [
    ...after === undefined ? await pending(store, places) : [],
    ...ended.slice(0, limit),
  ];
  return c.json({
    object: "list",
    running: queue.running.length,
    waiting: queue.waiting,
    seconds_per_job: queue.secondsPerJob,
    data: await Promise.all(
      jobs.map((job) => jobListItem(job, contextOf(job, c, services, places))),
    ),
    has_more: ended.length > limit,
  });
}

/** What runs, then what waits, in the order in which it will run. */
async function pending(
  store: JobServices["store"],
  places: ReadonlyMap<string, number>,
): Promise<JobEntry[]> {
  const running = await store.list({ statuses: ["in_progress"] });
  const queued = await store.list({ statuses: ["queued"] });
  const waiting = queued.filter(({ id }) => places.has(id))
    .sort((one, other) => places.get(one.id)! - places.get(other.id)!);
  return [...running, ...waiting];
}

function placesIn(queue: JobServices["queue"]): Map<string, number> {
  return new Map(queue.order().map((id, index) => [id, index + 1]));
}

async function findJob(c: Context<AppEnv>, { store }: JobServices): Promise<JobRecord> {
  const job = await store.get(c.req.param("id") ?? "", { mayBeOld: true });
  if (!job) throw noJob();
  return job;
}

function noJob(): ApiError {
  return new ApiError(404, "Job not found", { code: "not_found" });
}

function contextOf(
  job: JobEntry,
  c: Context<AppEnv>,
  { queue, settings, storage }: JobServices,
  places?: ReadonlyMap<string, number>,
) {
  return {
    place: job.status === "queued" ? (places ?? placesIn(queue)).get(job.id) ?? null : null,
    isOwn: isOwn(job, c.get("client"), settings.apiKeys),
    storage,
    publicUrl: settings.publicUrl,
  };
}

/** Cancels a job that has not ended. */
export async function cancelJob(
  job: JobRecord,
  { queue, store }: JobServices,
): Promise<JobRecord> {
  await queue.cancel(job.id);
  return await store.get(job.id) ?? job;
}

/** Cancels a job, and removes its record, which is given as it was at its end, and its files. @throws {ApiError} 409 while a worker works on it */
export function removeJob(job: JobRecord, services: JobServices): Promise<JobRecord> {
  return inTurn(job.id, services, () => removeInTurn(job, services));
}

async function removeInTurn(job: JobRecord, services: JobServices): Promise<JobRecord> {
  if (!await services.queue.cancelAndWait(job.id)) {
    throw new ApiError(
      409,
      `Cannot delete the ${job.kind}: its worker still works on it; try again in a minute`,
      { code: "still_running", headers: { "retry-after": "60" } },
    );
  }
  const ended = await services.store.get(job.id) ?? job;
  const { files = [], ...result } = (ended.result ?? {}) as Partial<JobResult>;
  if (files.length > 0) {
    const deleted = [...files.keys()];
    await services.store.update(job.id, { result: { ...result, files, deleted } });
  }
  // The record goes last: it is what leads to files that could not be removed.
  for (const file of filesOf(ended.result)) await services.storage?.remove(file);
  // Another server may have been faster.
  if (!await services.store.delete(job.id)) throw noJob();
  return ended;
}
