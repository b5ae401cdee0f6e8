/**
 * `/v1/workers`: what the GPUs do.
 *
 * @module
 */

import type { App, Services } from "../services.ts";
import { mount } from "./mount.ts";

/**
 * Mounts the list of workers.
 *
 * @param app to mount on
 * @param services what the GPUs do
 */
export function mountWorkers(app: App, { workers }: Services): void {
  mount(app, "/v1/workers", { GET: (c) => c.json({ object: "list", data: workers.list() }) });
}
