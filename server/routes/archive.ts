/** `POST /v1/jobs/archive`. */

import type { Context } from "hono";
import { noStorage } from "../contract/errors.ts";
import { readArchive } from "../contract/small_requests.ts";
import { readAnyJson } from "../http/body.ts";
import { archiveOf } from "../jobs/archive.ts";
import { isOwn } from "../jobs/job.ts";
import type { AppEnv, Services } from "../services.ts";
import { headerOfNames } from "../contract/fields.ts";
import { openStream } from "./news.ts";

/** Longest body, in bytes. */
const MAX_BODY = 2 ** 17;

export async function archive(c: Context<AppEnv>, services: Services): Promise<Response> {
  const { store, storage, settings } = services;
  const body = await readAnyJson(c.req.raw, { maxBytes: MAX_BODY, share: c.get("share") });
  const { results, ignored } = readArchive(body, settings);
  if (!storage) throw noStorage("make an archive");
  openStream(c, "an archive");
  const response = await archiveOf(results, {
    store,
    storage,
    isOwn: (job) => isOwn(job, c.get("client"), settings.apiKeys),
  });
  if (ignored.length > 0) response.headers.set("x-ignored-fields", headerOfNames(ignored));
  return response;
}
