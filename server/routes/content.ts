/** `GET /v1/images/{id}/content` and `GET /v1/videos/{id}/content`: files of finished jobs, and of videos under way. */

import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import type { JobResult } from "../jobs/outputs.ts";
import type { AppEnv, Services } from "../services.ts";
import { resultsOf } from "../inputs/kept_inputs.ts";
import type { StoredFile } from "../storage/result_storage.ts";
import { isEnd, isOwn } from "../jobs/job.ts";
import type { JobRecord } from "../jobs/job_store.ts";
import { VIDEO_TYPES, type VideoRequest } from "../videos/video_request.ts";
import { openStream } from "./news.ts";
import { findVideo } from "./videos.ts";

export async function imageContent(c: Context<AppEnv>, services: Services): Promise<Response> {
  const id = c.req.param("id") ?? "";
  const job = await services.store.get(id, { mayBeOld: true });
  if (job?.kind !== "image") throw notFound("Image not found");
  if (job.status === "queued" || job.status === "in_progress") {
    throw notFound("Image is still being generated");
  }
  if (job.status !== "completed") throw notFound("Image not found");
  if (!services.storage || (job.result as JobResult).files.length === 0) {
    throw notFound(
      "Image was not persisted on disk (this server keeps no results). Use b64_json response_format or " +
        "configure cloud storage.",
    );
  }
  const files = resultsOf(job.result);
  return await serveResult(c, { files, what: "Image", variant: c.req.query("variant") }, services);
}

/** A file that the request of a finished job brought, for its own client alone. */
export async function jobInput(c: Context<AppEnv>, services: Services): Promise<Response> {
  const { store, storage, settings } = services;
  const job = await store.get(c.req.param("id") ?? "", { mayBeOld: true });
  if (!job || !isOwn(job, c.get("client"), settings.apiKeys)) throw notFound("Job not found");
  const { inputs = [] } = (job.result ?? {}) as Partial<JobResult>;
  const [index = ""] = /^\d{1,4}$/.exec(c.req.param("index") ?? "") ?? [];
  const file = index === "" ? undefined : inputs[Number(index)];
  const response = file && await storage?.content(c.req.raw, file);
  if (!response) throw notFound("Input not found: it is not kept, or its job has no such input");
  return response;
}

function notFound(message: string): ApiError {
  return new ApiError(404, message, { code: "not_found" });
}

interface AskedFile {
  readonly files: ReadonlyMap<number, StoredFile>;
  /** Word for the results, such as `Video`. */
  readonly what: string;
  /** Which of them, from 0; the first that is left when it is omitted. */
  readonly variant: string | undefined;
}

/** Answers 200, 206, 304, or 307 to a file in a cloud. @throws {ApiError} 404 for no such file, 416 for a range beyond it */
async function serveResult(
  c: Context<AppEnv>,
  { files, what, variant }: AskedFile,
  { storage }: Services,
): Promise<Response> {
  const [first] = files.keys();
  const index = variant === undefined ? first : /^\d{1,4}$/.test(variant) ? Number(variant) : -1;
  const file = files.get(index ?? -1);
  if (!file || !storage) {
    throw notFound(`${what} variant ${variant?.slice(0, 40) ?? "None"} not found`);
  }
  const response = await storage.content(c.req.raw, file);
  if (!response) throw notFound(`${what} not found: its file was removed`);
  return response;
}

export async function videoContent(c: Context<AppEnv>, services: Services): Promise<Response> {
  const job = await findVideo(c, services);
  // The generic API's word for the video itself, beside its previews.
  const asked = c.req.query("variant");
  const variant = asked === "video" ? undefined : asked;
  if (isEnd(job.status)) return await whole(c, job, variant, services);
  const { isFragmented, seeds = [] } = (job.request ?? {}) as Partial<VideoRequest>;
  if (!isFragmented || !(Number(variant ?? 0) in seeds)) {
    throw notFound("Generation is still in-progress");
  }
  return await unfinished(c, job, variant, services);
}

function whole(
  c: Context<AppEnv>,
  job: JobRecord,
  variant: string | undefined,
  services: Services,
): Promise<Response> {
  const files = resultsOf(job.status === "completed" ? job.result : undefined);
  return serveResult(c, { files, what: "Video", variant }, services);
}

/** What is written of a video so far, and the rest as it comes; where it is made elsewhere, all of it at its end. */
async function unfinished(
  c: Context<AppEnv>,
  { id }: JobRecord,
  variant: string | undefined,
  services: Services,
): Promise<Response> {
  const index = Number(variant ?? 0);
  const headers = {
    "cache-control": "no-store",
    "content-disposition": `attachment; filename="${id}${index > 0 ? `_${index}` : ""}.mp4"`,
    "content-type": VIDEO_TYPES.mp4,
    "x-content-type-options": "nosniff",
  };
  if (c.req.method === "HEAD") return c.body(null, 200, headers);
  openStream(c, "a video that is being written");
  const { runners, store } = services;
  let job: JobRecord | undefined;
  const isOver = async () => {
    job = await store.get(id, { mayBeOld: true });
    return !job || isEnd(job.status);
  };
  const { signal } = c.req.raw;
  const stream = await runners.unfinished.follow(id, index, { isOver, signal });
  if (stream) return c.body(stream, 200, headers);
  if (!job) throw notFound("Video not found");
  return await whole(c, job, variant, services);
}
