/** `GET /v1/images/{id}/content`. */

import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import type { JobResult } from "../jobs/outputs.ts";
import type { AppEnv, Services } from "../services.ts";
import { serveResult } from "./serve_result.ts";

export async function content(c: Context<AppEnv>, services: Services): Promise<Response> {
  const id = c.req.param("id") ?? "";
  const job = await services.store.get(id, { mayBeOld: true });
  if (job?.kind !== "image") throw notFound("Image not found");
  if (job.status === "queued" || job.status === "in_progress") {
    throw notFound("Image is still being generated");
  }
  if (job.status !== "completed") throw notFound("Image not found");
  const { files } = job.result as JobResult;
  if (!services.storage || files.length === 0) {
    throw notFound(
      "Image was not persisted on disk (this server keeps no results). Use b64_json response_format or " +
        "configure cloud storage.",
    );
  }
  return await serveResult(c, { files, what: "Image", variant: c.req.query("variant") }, services);
}

function notFound(message: string): ApiError {
  return new ApiError(404, message, { code: "not_found" });
}
