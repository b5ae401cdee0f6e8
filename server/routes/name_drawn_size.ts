/**
 * Saying at which size a result is drawn.
 *
 * @module
 */

import type { Context } from "hono";
import { drawnSize } from "../../engine/drawn_size.ts";
import type { Size } from "../../generation/size.ts";
import type { AppEnv, Services } from "../services.ts";

/**
 * Tells the client at which size the model draws, where the result is enlarged.
 *
 * @param c of the request
 * @param size of the result
 * @param services the model
 */
export function nameDrawnSize(c: Context<AppEnv>, size: Size, { engine }: Services): void {
  const drawnAt = drawnSize(size, engine.engine.info);
  if (drawnAt) c.header("x-drawn-at", `${drawnAt.width}x${drawnAt.height}`);
}
