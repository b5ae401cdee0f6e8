/** `/v1/videos`: create, list, retrieve, cancel, delete, follow. */

import type { Context } from "hono";
import { z } from "zod";
import { readJson } from "../http/body.ts";
import { ApiError, noStorage } from "../contract/errors.ts";
import { queryOf, validate } from "../contract/validate.ts";
import { videoSchema } from "../contract/generation_fields.ts";
import { formBody } from "../inputs/form_body.ts";
import { InputFolder } from "../inputs/input_folder.ts";
import { givenIn } from "../inputs/kept_inputs.ts";
import { isForm, readForm, type UploadedFile } from "../inputs/multipart.ts";
import { asQueued, isOwn, ownerOf, unlessAborted } from "../jobs/job.ts";
import type { JobEntry, JobRecord, RequestKey } from "../jobs/job_store.ts";
import { once, requestKeyOf } from "../jobs/repeated_requests.ts";
import { type AppEnv, engineOf, requestContext, type Services } from "../services.ts";
import { toApiError } from "../http/respond.ts";
import { videoRecord } from "../videos/video_record.ts";
import { VIDEO_SPELLINGS, withInputNames } from "../contract/fields.ts";
import { videoInputs } from "../videos/video_inputs.ts";
import { readVideoRequest } from "../videos/video_request.ts";
import { cancelJob, removeJob } from "./jobs.ts";
import { jobEvents } from "./job_events.ts";
import { nameDrawnSize, nameIgnored } from "./image_item.ts";

/** Records of a page where the request does not say, and the most of them. */
const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;

const listSchema = z.object({
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).optional(),
  order: z.enum(["asc", "desc"]).optional(),
});

export async function retrieve(c: Context<AppEnv>, services: Services): Promise<Response> {
  return c.json(await show(await findVideo(c, services), c, services));
}

/** A video's way to its end, as server-sent events. */
export async function events(c: Context<AppEnv>, services: Services): Promise<Response> {
  const video = await findVideo(c, services);
  return jobEvents(c, video, services, (job) => show(job, c, services));
}

/** @throws {ApiError} 404 when there is no such video */
export async function findVideo(
  c: Context<AppEnv>,
  { store }: Services,
): Promise<JobRecord> {
  const job = await store.get(c.req.param("id") ?? "", { mayBeOld: true });
  if (job?.kind !== "video") throw new ApiError(404, "Video not found", { code: "not_found" });
  return job;
}

export async function create(c: Context<AppEnv>, services: Services): Promise<Response> {
  const { settings, inputRoot } = services;
  if (!services.storage) throw noStorage("make a video");
  const id = `video_${crypto.randomUUID()}`;
  const folder = new InputFolder(inputRoot, id);
  try {
    const { body, files } = isForm(c.req.raw) ? await readVideoForm(c, folder, services) : {
      body: await readJson(c.req.raw, { maxBytes: settings.maxBodyBytes, share: c.get("share") }),
      files: [],
    };
    const key = await requestKeyOf(c, services, body, files);
    return await once(c, services, key, {
      repeat: async (job) => {
        await folder.remove();
        return c.json(await show(job, c, services));
      },
      make: () => queue(c, { id, folder, body, files, ...(key ? { key } : {}) }, services),
    });
  } catch (error) {
    // The files of a job are its queue's.
    if (!await services.store.get(id)) await folder.remove();
    throw error;
  }
}

interface Sent {
  readonly id: string;
  readonly folder: InputFolder;
  readonly body: unknown;
  readonly files: readonly UploadedFile[];
  /** Where its client may send it again. */
  readonly key?: RequestKey;
}

async function queue(
  c: Context<AppEnv>,
  { id, folder, body, files, key }: Sent,
  services: Services,
): Promise<Response> {
  const { settings, runners } = services;
  const { signal } = c.req.raw;
  const model = (body as { model?: unknown } | null)?.model;
  const read = await readVideoRequest(
    body,
    await requestContext(services, signal, { model }),
    videoInputs(files, {
      folder,
      signal,
      ffmpeg: await services.ffmpeg(),
      allowPrivateUrls: settings.allowPrivateUrls,
    }),
  );
  const request = { ...read, ...givenIn(folder, services) };
  c.set("job", id);
  nameIgnored(c, request.ignored, services);
  if (request.rounded) c.header("x-rounded-fields", request.rounded.join(", "));
  const served = services.models.pick(request.model);
  nameDrawnSize(c, request, await engineOf(services, served, signal));
  // A client that has gone would never learn the id.
  signal.throwIfAborted();
  const client = c.get("client");
  const owner = ownerOf(client, settings.apiKeys);
  const job = {
    ...runners.video({ id, request, owner }),
    client,
    ...(key ? { requestKey: key } : {}),
  };
  // What waits has its images and videos on the disk.
  c.get("share").release();
  const { prepared, outcome } = await services.queue.add(job);
  // Its end is in its record; what clients may not see of it goes to the log.
  outcome.catch((error) => toApiError(error, id, services.log));
  const accepted = prepared.catch(async (refusal) => {
    await removeRefused(id, outcome, services);
    throw refusal;
  });
  // A client that may send it again may come back for what it left.
  if (key) await unlessAborted(signal, accepted);
  else await untilPrepared(accepted, id, signal, services);
  return c.json(await show(asQueued((await services.store.get(id))!), c, services));
}

async function readVideoForm(
  c: Context<AppEnv>,
  folder: InputFolder,
  { settings }: Services,
) {
  const form = await readForm(c.req.raw, folder, settings.formLimits, c.get("share"));
  const texts = withInputNames(form.fields, VIDEO_SPELLINGS);
  return { body: formBody(texts, videoSchema), files: form.files };
}

export function show(
  job: JobEntry,
  c: Context<AppEnv>,
  services: Services,
): ReturnType<typeof videoRecord> {
  return videoRecord(job, isOwn(job, c.get("client"), services.settings.apiKeys), services);
}

/** A request that was refused leaves no record: its client never learned the id. */
async function removeRefused(
  id: string,
  outcome: Promise<unknown>,
  services: Services,
): Promise<void> {
  await outcome.catch(() => {});
  const job = await services.store.get(id);
  if (job?.status === "failed") await removeJob(job, services);
}

/** The answer has the prompt as it was rewritten, or says why it could not be. */
async function untilPrepared(
  prepared: Promise<void>,
  id: string,
  signal: AbortSignal,
  { queue }: Services,
): Promise<void> {
  const onAbort = () => void queue.cancel(id);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await prepared;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

export async function list(c: Context<AppEnv>, services: Services): Promise<Response> {
  const { after, limit = DEFAULT_LIMIT, order = "desc" } = validate(
    listSchema,
    queryOf(c),
    "query",
  );
  // One more than is shown tells whether there are more.
  const jobs = await services.store.list({
    kind: "video",
    limit: limit + 1,
    order,
    ...(after === undefined ? {} : { after }),
  });
  const data = await Promise.all(jobs.slice(0, limit).map((job) => show(job, c, services)));
  return c.json({
    data,
    object: "list",
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: jobs.length > limit,
  });
}

export async function cancel(c: Context<AppEnv>, services: Services): Promise<Response> {
  const job = await cancelJob(await findVideo(c, services), services);
  return c.json(await show(job, c, services));
}

export async function remove(c: Context<AppEnv>, services: Services): Promise<Response> {
  const job = await removeJob(await findVideo(c, services), services);
  return c.json({ ...await show(job, c, services), status: "deleted", deleted: true });
}
