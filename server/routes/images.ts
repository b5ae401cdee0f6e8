/** `POST /v1/images/generations` and `POST /v1/images/edits`. */

import type { Context } from "hono";
import { readJson } from "../http/body.ts";
import { ApiError, noStorage } from "../contract/errors.ts";
import type { RequestContext } from "../contract/generation.ts";
import { imageEditSchema } from "../contract/generation_fields.ts";
import { promptOf } from "../../generation/wildcards.ts";
import { EDIT_SPELLINGS, withInputNames } from "../contract/fields.ts";
import type { ImageOutcome } from "../images/image_job.ts";
import { type ImageRequest, outputSeeds, readImageRequest } from "../images/image_request.ts";
import { formBody } from "../inputs/form_body.ts";
import { InputFolder } from "../inputs/input_folder.ts";
import { givenIn } from "../inputs/kept_inputs.ts";
import { isForm, readForm } from "../inputs/multipart.ts";
import { imageReader, type InputSources } from "../inputs/references.ts";
import { asQueued, type NewJob, ownerOf, type QueuedJob, unlessAborted } from "../jobs/job.ts";
import type { JobRecord, RequestKey } from "../jobs/job_store.ts";
import { once, requestKeyOf } from "../jobs/repeated_requests.ts";
import type { JobOf } from "../runners.ts";
import { type AppEnv, engineOf, requestContext, type Services } from "../services.ts";
import { toApiError } from "../http/respond.ts";
import { base64Json, imageItem, nameCuts, nameDrawnSize, nameIgnored } from "./image_item.ts";
import { streamImages } from "./image_stream.ts";
import { show } from "./jobs.ts";

export async function generate(c: Context<AppEnv>, services: Services): Promise<Response> {
  const body = await readJson(c.req.raw, {
    maxBytes: services.settings.maxBodyBytes,
    share: c.get("share"),
  });
  const key = await requestKeyOf(c, services, body);
  return await once(c, services, key, {
    repeat: (job) => answerAgain(c, job, services),
    make: async () => {
      const context = await contextOf(c, services, (body as { model?: unknown } | null)?.model);
      return withInputs(c, services, async (id, sources) => {
        const read = await readImageRequest("generation", body, context, {
          reader: imageReader(sources),
        });
        const request = { ...read, ...givenIn(sources.folder, services) };
        return await answer(c, { id, request, ...(key ? { key } : {}) }, services);
      });
    },
  });
}

export async function edit(c: Context<AppEnv>, services: Services): Promise<Response> {
  if (!isForm(c.req.raw)) throw notAForm(c.req.header("content-type"));
  return await withInputs(c, services, async (id, sources) => {
    const { settings: { formLimits } } = services;
    const form = await readForm(c.req.raw, sources.folder, formLimits, c.get("share"));
    const key = await requestKeyOf(c, services, form.fields, form.files);
    return await once(c, services, key, {
      repeat: async (job) => {
        await sources.folder.remove();
        return await answerAgain(c, job, services);
      },
      make: async () => {
        const context = await contextOf(c, services, [form.fields["model"]].flat().at(-1));
        const texts = withInputNames(form.fields, EDIT_SPELLINGS);
        const inputs = { reader: imageReader(sources), uploads: form.files };
        const body = formBody(texts, imageEditSchema);
        const read = await readImageRequest("edit", body, context, inputs);
        const request = { ...read, ...givenIn(sources.folder, services) };
        return await answer(c, { id, request, ...(key ? { key } : {}) }, services);
      },
    });
  });
}

/** Answers a new request, whose files lie in a folder of its own. */
async function withInputs(
  c: Context<AppEnv>,
  { settings: { allowPrivateUrls }, inputRoot, store }: Services,
  respond: (id: string, sources: InputSources) => Promise<Response>,
): Promise<Response> {
  const id = newImageId();
  const folder = new InputFolder(inputRoot, id);
  try {
    return await respond(id, { folder, allowPrivateUrls, signal: c.req.raw.signal });
  } catch (error) {
    // The files of a job are its queue's: it may be left for the next server, which needs them.
    if (!await store.get(id)) await folder.remove();
    throw error;
  }
}

/** `key` is there where the client may send the request again. */
async function answer(
  c: Context<AppEnv>,
  { id, request, key }: JobOf<ImageRequest> & { readonly key?: RequestKey },
  services: Services,
): Promise<Response> {
  c.set("job", id);
  // What waits for the GPU has its images on the disk.
  c.get("share").release();
  nameIgnored(c, request.ignored, services);
  const model = services.models.pick(request.model);
  nameDrawnSize(c, request, await engineOf(services, model, c.req.raw.signal));
  const client = c.get("client");
  const owner = ownerOf(client, services.settings.apiKeys);
  const job = {
    ...services.runners.image({ id, request, owner }),
    client,
    ...(key ? { requestKey: key } : {}),
  };
  if (respondsAsync(c)) return await answerWithJob(c, job, services);
  const isLeft = key !== undefined;
  return await answerWithImages(
    c,
    { id, request, isLeft },
    services,
    () =>
      services.queue.add({
        ...job,
        // A client that may send it again may come back for what it left.
        ...(isLeft ? {} : { signal: c.req.raw.signal }),
      }),
  );
}

async function answerAgain(
  c: Context<AppEnv>,
  record: JobRecord,
  services: Services,
): Promise<Response> {
  const { id, revisedPrompt } = record;
  const request = record.request as ImageRequest;
  const model = services.models.choose(request.model);
  if (model?.engine.status === "ready") nameDrawnSize(c, request, model.engine.engine);
  if (respondsAsync(c)) return await showJob(c, record, services);
  const job = services.runners.image({ id, request, revisedPrompt });
  return await answerWithImages(c, { id, request, isLeft: true }, services, () => {
    const outcome = services.queue.join(job);
    return Promise.resolve({ prepared: Promise.resolve(), outcome });
  });
}

async function answerWithImages(
  c: Context<AppEnv>,
  { id, request, isLeft }: JobOf<ImageRequest> & { readonly isLeft: boolean },
  services: Services,
  start: () => Promise<QueuedJob<ImageOutcome>>,
): Promise<Response> {
  if (request.stream) return await streamImages(c, { id, request, start, isLeft, services });
  const { outcome } = await start();
  const made = await (isLeft ? unlessAborted(c.req.raw.signal, outcome) : outcome);
  nameCuts(c, made);
  const { body, headers } = base64Json(await imagesResponse(id, request, made, services));
  return c.body(body, 200, headers);
}

function contextOf(
  c: Context<AppEnv>,
  services: Services,
  model: unknown,
): Promise<RequestContext> {
  return requestContext(services, c.req.raw.signal, { model, respondsAsync: respondsAsync(c) });
}

/** Whether the client asks for the job instead of its results, with `Prefer: respond-async` (RFC 7240). */
function respondsAsync(c: Context<AppEnv>): boolean {
  const preferences = (c.req.header("prefer") ?? "").toLowerCase().split(/[,;]/);
  return preferences.some((preference) => preference.trim() === "respond-async");
}

/** The job goes on even if its client leaves; its record leads to the results. */
async function answerWithJob(
  c: Context<AppEnv>,
  job: NewJob<ImageOutcome>,
  services: Services,
): Promise<Response> {
  if (!services.storage) throw noStorage("answer with a job");
  // A client that has gone would never learn the id.
  c.req.raw.signal.throwIfAborted();
  const { outcome } = await services.queue.add(job);
  // Its end is in its record; what clients may not see of it goes to the log.
  outcome.catch((error) => toApiError(error, job.id, services.log));
  return await showJob(c, asQueued((await services.store.get(job.id))!), services);
}

async function showJob(
  c: Context<AppEnv>,
  job: JobRecord,
  services: Services,
): Promise<Response> {
  return c.json(await show(job, c, services), 202, {
    location: `${services.settings.publicUrl ?? ""}/v1/jobs/${job.id}`,
    "preference-applied": "respond-async",
  });
}

function newImageId(): string {
  return `img_${crypto.randomUUID()}`;
}

function notAForm(contentType: string | undefined): ApiError {
  const got = contentType ? `'${contentType.slice(0, 60)}'` : "missing";
  return new ApiError(
    415,
    `Cannot read the body: its content type is ${got}; send multipart/form-data`,
    { code: "unsupported_media_type" },
  );
}

async function imagesResponse(
  id: string,
  request: ImageRequest,
  outcome: ImageOutcome,
  { settings: { publicUrl }, storage }: Services,
) {
  const data = outcome.outputs.map(async (output) => {
    const { index, file } = output;
    const cloudLink = file && storage ? await storage.link(file) : null;
    return {
      ...imageItem(id, request, output, { publicUrl, cloudLink }),
      revised_prompt: promptOf(
        { ...request, prompt: outcome.prompt },
        outputSeeds(request)[index]!,
      ),
      file_path: file ? storage?.pathOf(file) ?? null : null,
      resize: null,
    };
  });
  return {
    id,
    created: Math.floor(Date.now() / 1000),
    data: await Promise.all(data),
    peak_memory_mb: outcome.peakBytes > 0 ? outcome.peakBytes / 2 ** 20 : null,
    inference_time_s: outcome.seconds,
    ...(outcome.cutPrompts && { cut_prompts: outcome.cutPrompts }),
    usage: null,
  };
}
