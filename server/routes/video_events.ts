/** `GET /v1/videos/{id}/events`: a video's way to its end, as server-sent events. */

import type { App, Services } from "../services.ts";
import { jobEvents } from "./job_events.ts";
import { mount } from "./mount.ts";
import { findVideo, show } from "./videos.ts";

/** Mounts the events of videos. */
export function mountVideoEvents(app: App, services: Services): void {
  mount(app, "/v1/videos/:id/events", {
    GET: async (c) => {
      const video = await findVideo(c, services);
      return jobEvents(c, video, services, (job) => show(job, c, services));
    },
  });
}
