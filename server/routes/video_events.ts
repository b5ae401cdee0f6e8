/**
 * `GET /v1/videos/{id}/events`: a video's way to its end, as server-sent events.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { Context } from "hono";
import { type SSEStreamingApi, streamSSE } from "hono/streaming";
import { ApiError } from "../contract/errors.ts";
import { isEnd, type JobEvent } from "../jobs/job.ts";
import type { App, AppEnv, Services } from "../services.ts";
import { videoRecord } from "../videos/video_record.ts";
import { mount } from "./mount.ts";
import { News } from "./news.ts";
import { findVideo } from "./videos.ts";

/**
 * Mounts the events of videos.
 *
 * @param app to mount on
 * @param services queue and records
 */
export function mountVideoEvents(app: App, services: Services): void {
  mount(app, "/v1/videos/:id/events", { GET: (c) => events(c, services) });
}

async function events(c: Context<AppEnv>, services: Services): Promise<Response> {
  const { id } = await findVideo(c, services);
  // A body that nobody reads would never end.
  if (c.req.method === "HEAD") return c.body(null, 200, { "content-type": "text/event-stream" });
  if (c.env?.openStream?.() === false) {
    throw new ApiError(503, "Cannot open another stream of events: too many are open", {
      code: "too_many_streams",
      headers: { "retry-after": "10" },
    });
  }
  const news = new News<JobEvent>();
  const stop = services.queue.watch(id, (event) => {
    news.push(event, (last) => event.type === "progress" && last.type === "progress");
    if (event.type === "status" && isEnd(event.status)) news.end();
  });
  // Its end may be past, or be another server's doing, of which the queue does not tell.
  const endIfOver = async () => {
    const status = (await services.store.get(id))?.status;
    if (status === undefined || isEnd(status)) news.end();
  };
  return streamSSE(c, async (stream) => {
    try {
      await sendStatus(stream, id, services);
      await endIfOver();
      await news.sendTo(
        stream,
        (event) =>
          event.type === "status" ? sendStatus(stream, id, services) : send(stream, id, event),
        endIfOver,
      );
    } finally {
      stop();
    }
  });
}

/** The whole record: whoever joins late has missed nothing. */
async function sendStatus(
  stream: SSEStreamingApi,
  id: string,
  services: Services,
): Promise<void> {
  const job = await services.store.get(id);
  const data = job ? await videoRecord(job, services) : { id, status: "deleted" };
  await stream.writeSSE({ event: "status", data: JSON.stringify(data) });
}

async function send(
  stream: SSEStreamingApi,
  id: string,
  event: Exclude<JobEvent, { type: "status" }>,
): Promise<void> {
  const data = event.type === "progress"
    ? {
      id,
      progress: Math.floor(event.fraction * 100),
      step: event.step ?? null,
      total_steps: event.totalSteps ?? null,
      eta_s: event.etaSeconds ?? null,
    }
    : {
      id,
      output: event.output,
      index: event.index,
      content_type: event.contentType,
      b64_json: Buffer.from(event.bytes).toString("base64"),
    };
  await stream.writeSSE({ event: event.type, data: JSON.stringify(data) });
}
