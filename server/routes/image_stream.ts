/** The answer to an image request as server-sent events: previews, then each image as soon as it is there. */

import { Buffer } from "node:buffer";
import type { Context } from "hono";
import { streamSSE } from "hono/streaming";
import type { ImageOutcome, ImageOutput } from "../images/image_job.ts";
import type { ImageRequest } from "../images/image_request.ts";
import type { QueuedJob } from "../jobs/job.ts";
import { toApiError } from "../http/respond.ts";
import type { AppEnv, Services } from "../services.ts";
import { imageItem } from "./image_item.ts";
import { News } from "./news.ts";

interface ImageEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** A request whose answer is a stream. */
interface StreamedImages {
  readonly id: string;
  readonly request: ImageRequest;
  /** Queues the job; throws when it is refused. */
  readonly start: () => Promise<QueuedJob<ImageOutcome>>;
  /** Whether the job goes on when the client leaves. */
  readonly isLeft: boolean;
  readonly services: Services;
}

/** The job is queued before the stream begins, so that a refusal still has its own status. */
export async function streamImages(
  c: Context<AppEnv>,
  streamed: StreamedImages,
): Promise<Response> {
  const { id, request, services } = streamed;
  const created = Math.floor(Date.now() / 1000);
  const kind = request.images.length > 0 ? "image_edit" : "image_generation";
  const news = new News<ImageEvent>();
  const push = (type: string, fields: Record<string, unknown>) => {
    const output_format = request.format;
    const size = `${request.width}x${request.height}`;
    // The words of OpenAI's schema where ours mean the same.
    const quality = request.quality === "lossless" ? "auto" : request.quality;
    const background = request.layers === undefined ? "opaque" : "transparent";
    const shape = { output_format, size, quality, background };
    news.push({ type: `${kind}.${type}`, created_at: created, ...shape, ...fields });
  };
  const told = new Set<number>();
  const tell = (output: ImageOutput) => {
    const { index } = output;
    if (told.has(index)) return;
    told.add(index);
    const item = imageItem(id, { ...request, responseFormat: "b64_json" }, output);
    push("completed", { ...item, b64_json: String(item.b64_json), usage: null });
  };
  const stop = services.queue.watch(id, (event) => {
    // What cannot be read now comes with the others, at the end.
    if (event.type === "output") {
      const { index, bytes, file } = event;
      if (bytes) tell({ index, bytes });
      else if (file) {
        services.storage?.read(file).then((bytes) => bytes && tell({ index, bytes }), () => {});
      }
    }
    if (event.type !== "preview") return;
    push("partial_image", {
      output_format: "png",
      b64_json: Buffer.from(event.bytes).toString("base64"),
      partial_image_index: event.index,
      output_index: event.output,
      seed: request.seeds[event.output],
    });
  });
  const end = () => {
    stop();
    news.end();
  };
  const { outcome } = await streamed.start().catch((refusal) => {
    end();
    throw refusal;
  });
  outcome.then(({ outputs }) => outputs.forEach(tell)).catch(() => {}).finally(end);
  return streamSSE(c, async (stream) => {
    if (!streamed.isLeft) stream.onAbort(() => void services.queue.cancel(id));
    await news.sendTo(
      stream,
      (event) => stream.writeSSE({ event: event.type, data: JSON.stringify(event) }),
    );
    await outcome.catch((error) => {
      const { body } = toApiError(error, c.get("requestId"), services.log);
      return stream.writeSSE({ event: "error", data: JSON.stringify(body) });
    });
  });
}
