/** Saying which fields of a request did nothing. */

import type { Context } from "hono";
import { headerOfNames } from "../contract/fields.ts";
import type { AppEnv, Services } from "../services.ts";

/** Tells the client and the log which fields did nothing. */
export function nameIgnored(
  c: Context<AppEnv>,
  ignored: readonly string[],
  services: Services,
): void {
  if (ignored.length === 0) return;
  const names = headerOfNames(ignored);
  c.header("x-ignored-fields", names);
  const requestId = c.get("requestId");
  services.log(`${requestId} has fields without effect: ${names}`, { request_id: requestId });
}
