/**
 * `GET /v1/videos/{id}/events`: a video's way to its end, as server-sent events.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { Context } from "hono";
import { type SSEStreamingApi, streamSSE } from "hono/streaming";
import { isEnd, type JobEvent } from "../jobs/job_queue.ts";
import type { App, AppEnv, Services } from "../services.ts";
import { videoRecord } from "../videos/video_record.ts";
import { mount } from "./mount.ts";
import { findVideo } from "./videos.ts";

/** How often a stream without news says that it lives, in milliseconds. */
const HEARTBEAT_MS = 10_000;

/**
 * Mounts the events of videos.
 *
 * @param app to mount on
 * @param services queue and records
 */
export function mountVideoEvents(app: App, services: Services): void {
  mount(app, "/v1/videos/:id/events", { GET: (c) => events(c, services) });
}

function events(c: Context<AppEnv>, services: Services): Response {
  const { id, status } = findVideo(c, services);
  const pending: JobEvent[] = [];
  let wake = () => {};
  const stop = services.queue.watch(id, (event) => {
    // Of progress only the newest counts: a client that reads slowly must not fill the memory.
    const last = pending.at(-1);
    if (event.type === "progress" && last?.type === "progress") pending.pop();
    pending.push(event);
    wake();
  });
  return streamSSE(c, async (stream) => {
    stream.onAbort(() => wake());
    try {
      await sendStatus(stream, id, services);
      let hasEnded = isEnd(status) || isEnd(services.store.get(id)?.status ?? "cancelled");
      while (!stream.aborted && !(hasEnded && pending.length === 0)) {
        const event = pending.shift();
        if (event === undefined) {
          const isWoken = await news((resolve) => wake = resolve);
          if (!isWoken) await stream.write(": still at work\n\n");
          continue;
        }
        if (event.type === "status") {
          hasEnded ||= isEnd(event.status);
          await sendStatus(stream, id, services);
        } else await send(stream, id, event);
      }
    } finally {
      stop();
    }
  });
}

/** Resolves with whether something woke it before the next heartbeat. */
async function news(listen: (wake: () => void) => void): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), HEARTBEAT_MS);
  listen(() => resolve(true));
  const isWoken = await promise;
  clearTimeout(timer);
  return isWoken;
}

/** The whole record: whoever joins late has missed nothing. */
async function sendStatus(
  stream: SSEStreamingApi,
  id: string,
  { store, settings }: Services,
): Promise<void> {
  const job = store.get(id);
  const data = job ? videoRecord(job, settings.retainMs) : { id, status: "deleted" };
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
