/**
 * `POST /v1/images/generations`.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { Context } from "hono";
import { streamSSE } from "hono/streaming";
import { readJson } from "../body.ts";
import { headerOfNames } from "../contract/fields.ts";
import { type ImageRequest, readImageRequest } from "../contract/image_generation.ts";
import {
  type ImageOutcome,
  type ImageOutput,
  removeFiles,
  runImageJob,
  toImageResult,
} from "../images/image_job.ts";
import { toApiError } from "../respond.ts";
import type { App, AppEnv, Services } from "../services.ts";
import { mount } from "./mount.ts";

/** How often a stream without news says that it lives, in milliseconds. */
const HEARTBEAT_MS = 10_000;

/**
 * Mounts image generation.
 *
 * @param app to mount on
 * @param services engine, queue and storage
 */
export function mountImages(app: App, services: Services): void {
  mount(app, "/v1/images/generations", { POST: (c) => generate(c, services) });
}

async function generate(c: Context<AppEnv>, services: Services): Promise<Response> {
  const { settings } = services;
  const { engine } = services.engine;
  const request = readImageRequest(await readJson(c.req.raw, settings.maxBodyBytes), {
    info: engine.info,
    servedModelName: settings.servedModelName,
    strictFields: settings.strictFields,
    canEnhance: services.enhancer !== undefined,
    persistent: services.storage !== undefined,
  });
  if (request.ignored.length > 0) {
    const names = headerOfNames(request.ignored);
    c.header("x-ignored-fields", names);
    services.log(`${c.get("requestId")} has fields without effect: ${names}`);
  }
  const id = `img_${crypto.randomUUID()}`;
  if (request.stream) return streamed(c, id, request, services);
  const outcome = await start(c, id, request, services);
  return c.json(imagesResponse(id, request, outcome, services));
}

function start(
  c: Context<AppEnv>,
  id: string,
  request: ImageRequest,
  services: Services,
  onOutput?: (output: ImageOutput, index: number) => void,
): Promise<ImageOutcome> {
  const { queue, storage, enhancer, settings } = services;
  const { engine } = services.engine;
  return queue.run({
    id,
    kind: "image",
    request,
    signal: c.req.raw.signal,
    work: (context) =>
      runImageJob({
        engine,
        request,
        model: settings.servedModelName,
        storage,
        enhance: enhancer && ((prompt, signal) => enhancer.enhance(prompt, "image", signal)),
        ...(onOutput ? { onOutput } : {}),
      }, context),
    toRecord: toImageResult,
    discard: ({ outputs }) => removeFiles(outputs, storage),
  });
}

/** The answer as events, one for each picture as soon as it is there. */
function streamed(
  c: Context<AppEnv>,
  id: string,
  request: ImageRequest,
  services: Services,
): Response {
  const created = unixSeconds();
  const finished: ImageOutput[] = [];
  let wake = () => {};
  const onOutput = (output: ImageOutput) => {
    finished.push(output);
    wake();
  };
  // Queued before the stream begins: a refusal still has its own status.
  const outcome = start(c, id, request, services, onOutput);
  let ended = false;
  const end = () => {
    ended = true;
    wake();
  };
  outcome.then(end, end);
  return streamSSE(c, async (stream) => {
    stream.onAbort(() => void services.queue.cancel(id));
    let sent = 0;
    while (!ended || sent < finished.length) {
      const output = finished[sent];
      if (output === undefined) {
        const woken = Promise.withResolvers<void>();
        wake = woken.resolve;
        const timer = setTimeout(wake, HEARTBEAT_MS);
        await woken.promise;
        clearTimeout(timer);
        if (!ended && sent === finished.length) await stream.write(": still at work\n\n");
        continue;
      }
      const item = imageItem(id, { ...request, responseFormat: "b64_json" }, output, sent++);
      const event = {
        type: "image_generation.completed",
        ...item,
        created_at: created,
        output_format: request.format,
        size: `${request.width}x${request.height}`,
      };
      await stream.writeSSE({ event: event.type, data: JSON.stringify(event) });
    }
    await outcome.catch((error) => {
      const { body } = toApiError(error, c.get("requestId"), services.log);
      return stream.writeSSE({ event: "error", data: JSON.stringify(body) });
    });
  });
}

function imagesResponse(
  id: string,
  request: ImageRequest,
  outcome: ImageOutcome,
  services: Services,
) {
  return {
    id,
    created: unixSeconds(),
    data: outcome.outputs.map((output, index) => ({
      ...imageItem(id, request, output, index),
      revised_prompt: outcome.prompt,
      file_path: output.file && services.storage ? services.storage.path(output.file.name) : null,
      resize: null,
    })),
    peak_memory_mb: outcome.peakBytes > 0 ? outcome.peakBytes / 2 ** 20 : null,
    inference_time_s: outcome.seconds,
    usage: null,
  };
}

function imageItem(id: string, request: ImageRequest, output: ImageOutput, index: number) {
  if (request.responseFormat === "b64_json") {
    return { b64_json: Buffer.from(output.bytes).toString("base64"), url: null };
  }
  const variant = request.seeds.length > 1 ? `?variant=${index}` : "";
  return { b64_json: null, url: `/v1/images/${id}/content${variant}` };
}

function unixSeconds(): number {
  return Math.floor(Date.now() / 1000);
}
