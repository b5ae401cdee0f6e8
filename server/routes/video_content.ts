/** `GET /v1/videos/{id}/content`. */

import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import { isEnd } from "../jobs/job.ts";
import type { JobRecord } from "../jobs/job_store.ts";
import type { AppEnv, Services } from "../services.ts";
import type { JobResult } from "../jobs/outputs.ts";
import type { VideoRequest } from "../videos/video_request.ts";
import { serveResult } from "./serve_result.ts";
import { openStream } from "./open_stream.ts";
import { findVideo } from "./videos.ts";

export async function content(c: Context<AppEnv>, services: Services): Promise<Response> {
  const job = await findVideo(c, services);
  // The generic API's word for the video itself, beside its previews.
  const asked = c.req.query("variant");
  const variant = asked === "video" ? "0" : asked;
  if (isEnd(job.status)) return await whole(c, job, variant, services);
  const { isFragmented, seeds = [] } = (job.request ?? {}) as Partial<VideoRequest>;
  const index = Number(variant ?? 0);
  if (!isFragmented || !(index in seeds)) {
    throw new ApiError(404, "Generation is still in-progress", { code: "not_found" });
  }
  return await unfinished(c, job, index, services);
}

function whole(
  c: Context<AppEnv>,
  job: JobRecord,
  variant: string | undefined,
  services: Services,
): Promise<Response> {
  const files = job.status === "completed" ? (job.result as JobResult).files : [];
  return serveResult(c, { files, what: "Video", variant }, services);
}

/** What is written of a video so far, and the rest as it comes; where it is made elsewhere, all of it at its end. */
async function unfinished(
  c: Context<AppEnv>,
  { id }: JobRecord,
  index: number,
  services: Services,
): Promise<Response> {
  const headers = {
    "cache-control": "no-store",
    "content-disposition": `attachment; filename="${id}${index > 0 ? `_${index}` : ""}.mp4"`,
    "content-type": "video/mp4",
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
  if (!job) throw new ApiError(404, "Video not found", { code: "not_found" });
  return await whole(c, job, String(index), services);
}
