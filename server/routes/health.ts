/** Whether the process lives, and whether it can generate. */

import { answerOf } from "../http/respond.ts";
import type { App, Services } from "../services.ts";
import { mount } from "./mount.ts";

/** Mounts `/liveness`, `/health` and `/health_generate`. */
export function mountHealth(app: App, services: Services): void {
  mount(app, "/liveness", { GET: (c) => c.json({ status: "ok" }) });
  for (const path of ["/health", "/health_generate"]) {
    mount(app, path, {
      GET: (c) => {
        const { status, progress } = services.engine;
        if (status === "ready") {
          const { isLoaded } = services.engine.engine;
          return c.json({ status: "ok", ...(!isLoaded && { model: "unloaded" }) });
        }
        const error = answerOf(services.engine.unavailable());
        return c.json({ status, progress, ...error.body }, 503, error.headers);
      },
    });
  }
}
