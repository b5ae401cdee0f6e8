/** Saying at which size a result is drawn. */

import type { Context } from "hono";
import { drawnSize } from "../../engine/result_size.ts";
import type { Size } from "../../generation/size.ts";
import type { ServedModel } from "../served_models.ts";
import type { AppEnv } from "../services.ts";

/** Tells the client at which size the model draws, where the result is enlarged. */
export function nameDrawnSize(
  c: Context<AppEnv>,
  size: Size,
  { engine }: Pick<ServedModel, "engine">,
): void {
  const drawnAt = drawnSize(size, engine.engine.info);
  if (drawnAt) c.header("x-drawn-at", `${drawnAt.width}x${drawnAt.height}`);
}
