/**
 * `/v1/videos`: create, list, retrieve, cancel, delete.
 *
 * @module
 */

import type { Context } from "hono";
import { z } from "zod";
import { readJson } from "../body.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import { validate } from "../contract/validate.ts";
import { videoSchema } from "../contract/video_fields.ts";
import { readScalars } from "../inputs/form_scalars.ts";
import { InputFolder } from "../inputs/input_folder.ts";
import { isForm, readForm } from "../inputs/multipart.ts";
import type { JobRecord } from "../jobs/job_store.ts";
import { requestContext } from "../request_context.ts";
import { toApiError } from "../respond.ts";
import type { App, AppEnv, Services } from "../services.ts";
import type { VideoResult } from "../videos/video_job.ts";
import { videoRecord } from "../videos/video_record.ts";
import { readVideoRequest, type VideoRequest } from "../videos/video_request.ts";
import { mount } from "./mount.ts";
import { nameIgnored } from "./name_ignored.ts";

const DEFAULT_LIMIT = 100;

const listSchema = z.object({
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(DEFAULT_LIMIT).optional(),
  order: z.string().optional(),
});

/**
 * Mounts videos.
 *
 * @param app to mount on
 * @param services engine, queue and storage
 */
export function mountVideos(app: App, services: Services): void {
  mount(app, "/v1/videos", {
    POST: (c) => create(c, services),
    GET: (c) => list(c, services),
  });
  mount(app, "/v1/videos/:id", {
    GET: (c) => c.json(show(findVideo(c, services), services)),
    DELETE: (c) => remove(c, services),
  });
  mount(app, "/v1/videos/:id/cancel", { POST: (c) => cancel(c, services) });
}

/**
 * The job that a path names.
 *
 * @param c with a parameter `id`
 * @param services records
 * @returns the job
 * @throws {ApiError} 404 when there is no such video
 */
export function findVideo(c: Context<AppEnv>, { store }: Services): JobRecord {
  const job = store.get(c.req.param("id") ?? "");
  if (job?.kind !== "video") throw new ApiError(404, "Video not found", { code: "not_found" });
  return job;
}

async function create(c: Context<AppEnv>, services: Services): Promise<Response> {
  const { settings, queue, runners, inputRoot } = services;
  if (!services.storage) {
    throw badRequest(
      "Cannot make a video: this server keeps no results (its output path is empty)",
      undefined,
      "no_storage",
    );
  }
  const context = requestContext(services, c.req.raw.signal);
  const id = `video_${crypto.randomUUID()}`;
  const folder = new InputFolder(inputRoot, id);
  try {
    const { body, files } = isForm(c.req.raw)
      ? await readVideoForm(c.req.raw, folder, services)
      : { body: await readJson(c.req.raw, settings.maxBodyBytes), files: [] };
    const request: VideoRequest & { revisedPrompt?: string } = await readVideoRequest(
      body,
      files,
      context,
      {
        folder,
        ffmpeg: await services.ffmpeg(),
        allowPrivateUrls: settings.allowPrivateUrls,
        signal: c.req.raw.signal,
      },
    );
    if (request.enhancePrompt && services.enhancer) {
      const enhancer = services.enhancer;
      request.revisedPrompt = await enhancer.enhance(request.prompt, "video", c.req.raw.signal);
      request.prompt = request.revisedPrompt;
    }
    c.set("job", id);
    nameIgnored(c, request.ignored, services);
    // Whoever has gone would never learn the id.
    c.req.raw.signal.throwIfAborted();
    // Its end is in its record; what clients may not see of it goes to the log.
    queue.run({ ...runners.video({ id, request }), client: c.get("client") })
      .catch((error) => toApiError(error, id, services.log));
  } catch (error) {
    await folder.remove();
    throw error;
  }
  return c.json(show(services.store.get(id)!, services));
}

async function readVideoForm(request: Request, folder: InputFolder, { settings }: Services) {
  const form = await readForm(request, folder, settings.formLimits);
  return { body: readScalars(form.fields, videoSchema), files: form.files };
}

function show(job: JobRecord, { settings }: Services) {
  return videoRecord(job, settings.retainMs);
}

function list(c: Context<AppEnv>, services: Services): Response {
  const { after, limit = DEFAULT_LIMIT, order } = validate(listSchema, c.req.query());
  // One more than is shown tells whether there are more.
  const jobs = services.store.list({
    kind: "video",
    limit: limit + 1,
    order: order === "asc" ? "asc" : "desc",
    ...(after === undefined ? {} : { after }),
  });
  const data = jobs.slice(0, limit).map((job) => show(job, services));
  return c.json({
    data,
    object: "list",
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: jobs.length > limit,
  });
}

function cancel(c: Context<AppEnv>, services: Services): Response {
  const { id } = findVideo(c, services);
  services.queue.cancel(id);
  return c.json(show(services.store.get(id)!, services));
}

async function remove(c: Context<AppEnv>, services: Services): Promise<Response> {
  const job = findVideo(c, services);
  await services.queue.cancelAndWait(job.id);
  const ended = services.store.get(job.id) ?? job;
  const { files } = (ended.result ?? { files: [] }) as Pick<VideoResult, "files">;
  // The record goes last: it is what leads to files that could not be removed.
  for (const file of files) await services.storage?.remove(file);
  services.store.delete(job.id);
  return c.json({ ...show(ended, services), status: "deleted" });
}
