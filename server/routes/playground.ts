/** `GET /`: a page to draw on, and the files that it loads. */

import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import { playground } from "../playground/page.ts";
import type { AppEnv, Services } from "../services.ts";

/** Where the files of the page are. */
export const PLAYGROUND_FOLDER = "/playground/";

function check({ settings }: Services): void {
  if (settings.playground) return;
  const message = "Cannot show the playground: the server was started with --no-playground";
  throw new ApiError(404, message, { code: "not_found" });
}

/** The page; results may be on another origin. */
export function page(c: Context<AppEnv>, services: Services): Response {
  check(services);
  const { html, policy } = playground();
  const elsewhere = services.storage?.origin ? ` ${services.storage.origin}` : "";
  return c.html(html, 200, {
    "content-security-policy": policy.replace(
      /((?:img|media|connect)-src [^;]*)/g,
      `$1${elsewhere}`,
    ),
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
  }) as Response;
}

/** A file of the page. */
export function file(c: Context<AppEnv>, services: Services): Response {
  check(services);
  const { version, assets } = playground();
  const asset = assets.get(c.req.param("name") ?? "");
  if (!asset || c.req.param("version") !== version) {
    throw new ApiError(404, "Cannot find this file of the playground: reload the page", {
      code: "not_found",
    });
  }
  const headers = {
    "content-type": asset.type,
    "cache-control": "public, max-age=31536000, immutable",
    vary: "accept-encoding",
  };
  return /\bgzip\b/.test(c.req.header("accept-encoding") ?? "")
    ? c.body(asset.gzip, 200, { ...headers, "content-encoding": "gzip" })
    : c.body(asset.text, 200, headers);
}
