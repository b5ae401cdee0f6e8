/**
 * `GET /v1/jobs`: the queue.
 *
 * @module
 */

import type { JobEntry } from "../jobs/job_store.ts";
import type { App, Services } from "../services.ts";
import { mount } from "./mount.ts";

/** Most ended jobs that are listed. */
const MAX_ENDED = 50;

/**
 * Mounts the queue.
 *
 * @param app to mount on
 * @param services queue and records
 */
export function mountJobs(app: App, services: Services): void {
  const { queue, store } = services;
  mount(app, "/v1/jobs", {
    GET: async (c) => {
      const order = queue.order();
      const places = new Map(order.map((id, index) => [id, index + 1]));
      const running = await store.list({ statuses: ["in_progress"] });
      const queued = await store.list({ statuses: ["queued"] });
      const waiting = queued.filter(({ id }) => places.has(id))
        .sort((one, other) => places.get(one.id)! - places.get(other.id)!);
      const ended = await store.list({
        statuses: ["completed", "failed", "cancelled"],
        limit: MAX_ENDED,
      });
      return c.json({
        object: "list",
        running: queue.running === undefined ? 0 : 1,
        waiting: queue.waiting,
        seconds_per_job: queue.secondsPerJob,
        data: [...running, ...waiting, ...ended].map((job) =>
          jobEntry(job, places.get(job.id) ?? null)
        ),
      });
    },
  });
}

/** What everybody may see of a job: not its prompt. */
function jobEntry(job: JobEntry, place: number | null) {
  const unix = (milliseconds: number | null) =>
    milliseconds === null ? null : Math.floor(milliseconds / 1000);
  return {
    id: job.id,
    object: "job",
    kind: job.kind,
    status: job.status,
    progress: job.progress,
    place,
    created_at: unix(job.createdAt),
    started_at: unix(job.startedAt),
    ended_at: unix(job.endedAt),
    error: job.error,
  };
}
