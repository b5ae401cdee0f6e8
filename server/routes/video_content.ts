/**
 * `GET /v1/videos/{id}/content`.
 *
 * @module
 */

import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import type { App, AppEnv, Services } from "../services.ts";
import type { VideoResult } from "../videos/video_job.ts";
import { mount } from "./mount.ts";
import { serveResult } from "./serve_result.ts";
import { findVideo } from "./videos.ts";

/**
 * Mounts the content of videos.
 *
 * @param app to mount on
 * @param services records and storage
 */
export function mountVideoContent(app: App, services: Services): void {
  mount(app, "/v1/videos/:id/content", { GET: (c) => content(c, services) });
}

async function content(c: Context<AppEnv>, services: Services): Promise<Response> {
  const job = await findVideo(c, services);
  if (job.status === "queued" || job.status === "in_progress") {
    throw new ApiError(404, "Generation is still in-progress", { code: "not_found" });
  }
  const files = job.status === "completed" ? (job.result as VideoResult).files : [];
  // The generic API's word for the video itself, beside its previews.
  const variant = c.req.query("variant");
  return await serveResult(
    c,
    { files, what: "Video", variant: variant === "video" ? "0" : variant },
    services,
  );
}
