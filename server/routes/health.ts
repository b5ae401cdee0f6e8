/** Whether the server can generate. */

import type { Context } from "hono";
import { answerOf } from "../http/respond.ts";
import type { AppEnv, Services } from "../services.ts";

/** 200 when the model answers, else 503 with the share that is loaded. */
export function health(c: Context<AppEnv>, { engine }: Services): Response {
  const { status, progress } = engine;
  if (status === "ready") {
    return c.json({
      status: "ok",
      ...(engine.engine.residence !== "loaded" && { model: "unloaded" }),
    });
  }
  const error = answerOf(engine.unavailable());
  return c.json({ status, progress, ...error.body }, 503, error.headers);
}
