/** `GET /metrics`. */

import { ApiError } from "../contract/errors.ts";
import type { App, Services } from "../services.ts";
import { mount } from "./mount.ts";

/** Mounts the metrics. */
export function mountMetrics(app: App, { metrics, settings }: Services): void {
  mount(app, "/metrics", {
    GET: async (c) => {
      if (settings.enableMetrics) {
        return c.body(await metrics.text(), 200, { "content-type": metrics.contentType });
      }
      throw new ApiError(
        404,
        "Cannot GET /metrics: metrics are off; start the server with --enable-metrics",
        { code: "not_enabled" },
      );
    },
  });
}
