/**
 * `GET /v1/videos/{id}/events`: a video's way to its end, as server-sent events.
 *
 * @module
 */

import type { App, Services } from "../services.ts";
import { videoRecord } from "../videos/video_record.ts";
import { jobEvents } from "./job_events.ts";
import { mount } from "./mount.ts";
import { findVideo } from "./videos.ts";

/**
 * Mounts the events of videos.
 *
 * @param app to mount on
 * @param services queue and records
 */
export function mountVideoEvents(app: App, services: Services): void {
  mount(app, "/v1/videos/:id/events", {
    GET: async (c) => {
      const { id } = await findVideo(c, services);
      return jobEvents(c, id, services, (job) => videoRecord(job, services));
    },
  });
}
