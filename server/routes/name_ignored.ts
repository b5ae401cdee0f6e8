/** Saying what of a request did nothing. */

import type { Context } from "hono";
import { headerOfNames } from "../contract/fields.ts";
import type { CutPrompt } from "../../engine/types.ts";
import type { ImageOutcome } from "../images/image_job.ts";
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

/** Tells the client which prompts were read in part. */
export function nameCuts(c: Context<AppEnv>, { cutPrompts }: ImageOutcome): void {
  if (cutPrompts) c.header("x-cut-prompts", headerOfCuts(cutPrompts));
}

/** Such as `prompt; tokens=640; read=512`. */
function headerOfCuts(cuts: readonly CutPrompt[]): string {
  return cuts.map(({ prompt, tokens, read }) => `${prompt}; tokens=${tokens}; read=${read}`)
    .join(", ");
}
