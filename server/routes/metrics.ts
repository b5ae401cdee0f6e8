/** `GET /metrics`. */

import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import type { AppEnv, Services } from "../services.ts";

/** What the server measures of itself. */
export async function sendMetrics(
  c: Context<AppEnv>,
  { metrics, settings }: Services,
): Promise<Response> {
  if (settings.enableMetrics) {
    return c.body(await metrics.text(), 200, { "content-type": metrics.contentType });
  }
  throw new ApiError(
    404,
    "Cannot GET /metrics: metrics are off; start the server with --enable-metrics",
    { code: "not_enabled" },
  );
}
