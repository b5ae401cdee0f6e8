/** `/v1/workers`: what the GPUs do. */

import type { App, Services } from "../services.ts";
import { mount } from "./mount.ts";

/** Mounts the list of workers. */
export function mountWorkers(app: App, { workers }: Services): void {
  mount(app, "/v1/workers", { GET: (c) => c.json({ object: "list", data: workers.list() }) });
}
