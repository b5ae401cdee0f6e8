/** Headers that tell how a request was read: fields without effect, prompts that were cut, the size that is drawn. */

import type { Context } from "hono";
import { headerOfNames } from "../contract/fields.ts";
import type { CutPrompt } from "../../engine/types.ts";
import type { ImageOutcome } from "../images/image_job.ts";
import type { AppEnv, Services } from "../services.ts";
import { drawnSize } from "../../engine/result_size.ts";
import type { Size } from "../../generation/size.ts";
import type { ServedModel } from "../served_models.ts";

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

/** Tells the client at which size the model draws, where the result is enlarged. */
export function nameDrawnSize(
  c: Context<AppEnv>,
  size: Size,
  { engine }: Pick<ServedModel, "engine">,
): void {
  const drawnAt = drawnSize(size, engine.engine.info);
  if (drawnAt) c.header("x-drawn-at", `${drawnAt.width}x${drawnAt.height}`);
}
