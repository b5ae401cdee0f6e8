/** A job's way to its end, as server-sent events. */

import type { Context } from "hono";
import { type SSEStreamingApi, streamSSE } from "hono/streaming";
import { isEnd, isOwn, type JobEvent, percentOf, type Queue } from "../jobs/job.ts";
import type { JobRecord, JobStore } from "../jobs/job_store.ts";
import type { AppEnv } from "../services.ts";
import type { ServerSettings } from "../settings.ts";
import { News, openStream } from "./news.ts";

/** Answers with `status`, as `show` makes it, `progress`, and `preview` for the job's own client. @throws {ApiError} 503 for too many streams */
export function jobEvents(
  c: Context<AppEnv>,
  watched: JobRecord,
  services: {
    readonly store: Pick<JobStore, "get">;
    readonly queue: Pick<Queue, "watch">;
    readonly settings: Pick<ServerSettings, "apiKeys">;
  },
  show: (job: JobRecord) => Promise<unknown>,
): Response {
  // A body that nobody reads would never end.
  if (c.req.method === "HEAD") return c.body(null, 200, { "content-type": "text/event-stream" });
  openStream(c, "another stream of events");
  const { id } = watched;
  const seesAll = isOwn(watched, c.get("client"), services.settings.apiKeys);
  const news = new News<Exclude<JobEvent, { type: "output" }>>();
  const stop = services.queue.watch(id, (event) => {
    if (event.type === "output" || (event.type === "preview" && !seesAll)) return;
    news.push(event, (last) => event.type === "progress" && last.type === "progress");
    if (event.type === "status" && isEnd(event.status)) news.end();
  });
  // Its end may be past, or be another server's doing, of which the queue does not tell.
  const endIfOver = async () => {
    const status = (await services.store.get(id, { mayBeOld: true }))?.status;
    if (status === undefined || isEnd(status)) news.end();
  };
  // The whole record: a late client has missed nothing.
  const sendStatus = async (stream: SSEStreamingApi, mayBeOld = false) => {
    const job = await services.store.get(id, { mayBeOld });
    const data = job ? await show(job) : { id, status: "deleted" };
    await stream.writeSSE({ event: "status", data: JSON.stringify(data) });
  };
  return streamSSE(c, async (stream) => {
    try {
      await sendStatus(stream, true);
      await endIfOver();
      await news.sendTo(
        stream,
        (event) => event.type === "status" ? sendStatus(stream) : send(stream, id, event),
        endIfOver,
      );
    } finally {
      stop();
    }
  });
}

/** What an event says of its job. */
type Told = Exclude<JobEvent, { type: "status" | "output" }>;

/** Texts of events: hundreds may watch one job. */
const texts = new WeakMap<Told, string>();

async function send(stream: SSEStreamingApi, id: string, event: Told): Promise<void> {
  const data = texts.get(event) ?? textOf(id, event);
  texts.set(event, data);
  await stream.writeSSE({ event: event.type, data });
}

function textOf(id: string, event: Told): string {
  return JSON.stringify(
    event.type === "progress"
      ? {
        id,
        progress: percentOf(event),
        stage: event.stage ?? null,
        step: event.step ?? null,
        total_steps: event.totalSteps ?? null,
        eta_s: event.etaSeconds ?? null,
      }
      : {
        id,
        output: event.output,
        index: event.index,
        content_type: event.contentType,
        b64_json: event.bytes.toBase64(),
      },
  );
}
