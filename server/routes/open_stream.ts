/** Places for answers that may stay open for hours. */

import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import type { AppEnv } from "../services.ts";

/**
 * Takes a place for an answer until its connection closes.
 *
 * @param what is answered, such as `a stream of events`
 * @throws {ApiError} 503 when there is none left
 */
export function openStream(c: Context<AppEnv>, what: string): void {
  if (c.env?.openStream?.(c.get("client")) !== false) return;
  throw new ApiError(503, `Cannot open ${what}: too many streams are open, or too many of yours`, {
    code: "too_many_streams",
    headers: { "retry-after": "10" },
  });
}
