/** Models that can be fetched, fetching them, and removing them from this machine. */

import type { Context } from "hono";
import { streamSSE } from "hono/streaming";
import { isHubId, parseHubFile } from "../../hub/cache.ts";
import { BUNDLED_MODEL } from "../../models/lora/bundled.ts";
import { listCachedModels, removeCachedModel } from "../../hub/cached_models.ts";
import { CATALOGUE, repositoriesOf } from "../../hub/catalogue.ts";
import { partNamed } from "../../hub/catalogue_parts.ts";
import { USUAL_BYTES } from "../../hub/precision.ts";
import { freeBytes, takeStock } from "../../hub/stock.ts";
import { shorten } from "../../generation/texts.ts";
import { NotFoundError } from "../../platform/mod.ts";
import type { CatalogueAnswer, ModelPull } from "../contract/answers.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import { isAutomatic } from "../../hub/cached_parts.ts";
import { isSteering } from "../../hub/steering_parts.ts";
import { modelCard } from "./model_card.ts";
import { readParts, readPull } from "../contract/small_requests.ts";
import { maySteward } from "../http/access.ts";
import { readAnyJson } from "../http/body.ts";
import { catalogueEntries, measuredModels, partEntries } from "../models/catalogue_entries.ts";
import type { JobSummary } from "../jobs/job.ts";
import { isOver } from "../models/pulls.ts";
import type { AppEnv, Services } from "../services.ts";
import type { FoundSteering } from "../start_options.ts";
import { nameIgnored } from "./image_item.ts";
import { News, openStream } from "./news.ts";

/** The models that have names, as this machine sees them. */
export async function catalogue(c: Context<AppEnv>, services: Services): Promise<Response> {
  const { engine } = services;
  const settings = await services.hub();
  const known = services.availableBytes();
  const stock = await takeStock(settings, known ?? USUAL_BYTES);
  const answer: CatalogueAnswer = {
    object: "list",
    can_pull: refusal(c, services) === undefined,
    has_token: settings.token !== undefined,
    device_bytes: known ?? null,
    is_software: engine.status === "ready" ? engine.engine.info.isSoftware ?? null : null,
    free_bytes: await freeBytes(settings.cacheFolder) ?? null,
    data: catalogueEntries(
      stock,
      settings,
      known !== undefined,
      await measuredModels(services.store),
    ),
    parts: await partEntries(settings),
  };
  return c.json(answer);
}

/** Fetches a model; with `stream` the answer is how far that is. */
export async function pull(c: Context<AppEnv>, services: Services): Promise<Response> {
  checkMay(c, services, "pull models");
  const body = await readAnyJson(c.req.raw, { maxBytes: MAX_BODY, share: c.get("share") });
  const { model, stream, ignored } = readPull(body, services.settings);
  if (stream) openStream(c, "another stream of events");
  const record = await services.pulls.start(model);
  nameIgnored(c, ignored, services);
  return stream ? events(c, services, record) : c.json(record);
}

export function listPulls(services: Services): unknown {
  return { object: "list", data: services.pulls.all };
}

export function retrievePull(c: Context<AppEnv>, services: Services): Response {
  return c.json(pullOf(c, services));
}

/** Stops a pull; the next one of the model goes on from there. */
export function stopPull(c: Context<AppEnv>, services: Services): Response {
  checkMay(c, services, "stop pulls");
  const { id } = pullOf(c, services);
  return c.json(services.pulls.stop(id)!);
}

export function pullEvents(c: Context<AppEnv>, services: Services): Response {
  const record = pullOf(c, services);
  // A body that nobody reads would never end.
  if (c.req.method === "HEAD") return c.body(null, 200, { "content-type": "text/event-stream" });
  openStream(c, "another stream of events");
  return events(c, services, record);
}

/** Removes a model's files, those of an unfinished pull included. */
export async function removeModel(c: Context<AppEnv>, services: Services): Promise<Response> {
  checkMay(c, services, "delete models");
  const id = c.req.param("id") ?? "";
  if (id === BUNDLED_MODEL) {
    throw new ApiError(409, `Cannot delete ${id}: it is a part of this program`, {
      param: "id",
      code: "model_in_use",
    });
  }
  const entry = CATALOGUE.find(({ name }) => name === id.toLowerCase());
  const part = partNamed(id);
  const repositories = entry
    ? repositoriesOf(entry)
    : part
    ? [parseHubFile(part.source)?.id ?? part.source]
    : isHubId(id)
    ? [id]
    : [];
  const named = entry ?? part;
  const names = [...(named ? [named.name] : []), ...repositories];
  const { models, found } = services;
  const served = models.all.filter(({ path }) => names.includes(path));
  const isAsked = served.some((model) => !found?.all.includes(model));
  const hasJobs = served.length > 0 && await isAwaited(served[0]!.name, services);
  if (isAsked || hasJobs) {
    const why = isAsked ? "this server was started with it" : "jobs wait for it or run";
    throw new ApiError(409, `Cannot delete ${id}: ${why}`, { param: "id", code: "model_in_use" });
  }
  await services.pulls.end(names);
  const { cacheFolder } = await services.hub();
  const nothing = () =>
    new ApiError(404, `Cannot delete ${shorten(id)}: nothing of it is on this machine`, {
      param: "id",
      code: "model_not_found",
    });
  const cached = (await listCachedModels(cacheFolder)).map((model) => model.id);
  if (!repositories.some((each) => cached.includes(each))) throw nothing();
  await found?.remove(names);
  let freed: number | undefined;
  try {
    for (const repository of repositories) {
      const removed = await removeCachedModel(repository, cacheFolder).catch((error) => {
        if (error instanceof NotFoundError) return undefined;
        throw error;
      });
      if (removed) freed = (freed ?? 0) + removed.bytes;
    }
  } finally {
    // What could not be removed is served on.
    await found?.refresh(true);
  }
  if (freed === undefined) throw nothing();
  if (part && (isAutomatic(part.part) || isSteering(part.part))) await found?.reload();
  services.log(`Deleted ${id}: ${(freed / 1e9).toFixed(1)} GB are free again`);
  return c.json({ id, object: "model", deleted: true, freed_bytes: freed });
}

/** Opens a model again with other ControlNets and IP-Adapters, when no job needs it. */
export async function changeParts(c: Context<AppEnv>, services: Services): Promise<Response> {
  checkMay(c, services, "change the parts of models");
  const { models, found, settings, enhancer } = services;
  const id = c.req.param("id") ?? "";
  const body = await readAnyJson(c.req.raw, { maxBytes: MAX_BODY, share: c.get("share") });
  const { ignored, ...wanted } = readParts(body, settings);
  await models.seek(id);
  const model = models.find(id) ?? models.refuse(id, false);
  if (!found || !model.steering) {
    throw new ApiError(
      409,
      `Cannot change the parts of ${model.name}: ${
        found?.all.includes(model)
          ? "the catalogue does not know the model"
          : "this server was started with it; name them then, with --controlnet and --ip-adapter"
      }`,
      { param: "id", code: "parts_fixed" },
    );
  }
  const choose = async ({ used }: FoundSteering) => {
    if (await isAwaited(model.name, services)) {
      throw new ApiError(
        409,
        `Cannot change the parts of ${model.name}: jobs wait for it or run; try again when they have ended`,
        { param: "id", code: "model_in_use" },
      );
    }
    const { controlNets = used.controlNets, ipAdapters = used.ipAdapters } = wanted;
    return { controlNets, ipAdapters };
  };
  const card = await found.steer(
    model.name,
    choose,
    (served, { info }) => modelCard(served, settings, enhancer !== undefined, info),
  ).catch((error) => {
    throw error instanceof RangeError ? badRequest(error.message, "control_nets") : error;
  });
  if (!card) models.refuse(model.name, false);
  nameIgnored(c, ignored, services);
  return c.json(card);
}

/** Longest body of a pull, in bytes. */
const MAX_BODY = 16 * 2 ** 10;

/** Whether a job for a model waits or runs. */
async function isAwaited(name: string, { queue, store }: Services): Promise<boolean> {
  for (const id of [...queue.running, ...queue.order()]) {
    // The request may have another name of it.
    if (((await store.get(id))?.summary as Partial<JobSummary> | undefined)?.model === name) {
      return true;
    }
  }
  return false;
}

function pullOf(c: Context<AppEnv>, { pulls }: Services): ModelPull {
  const id = c.req.param("id") ?? "";
  const record = pulls.find(id);
  if (record) return record;
  throw new ApiError(404, `Cannot find the pull ${shorten(id)}: GET /v1/pulls lists them`, {
    code: "not_found",
  });
}

function events(c: Context<AppEnv>, { pulls }: Services, record: ModelPull): Response {
  const news = new News<ModelPull>();
  const push = (record: ModelPull) => {
    news.push(record, (last) => last.status === record.status);
    if (isOver(record)) news.end();
  };
  const stop = pulls.watch(record.id, push);
  push(record);
  return streamSSE(c, async (stream) => {
    try {
      await news.sendTo(
        stream,
        (record) => stream.writeSSE({ event: "pull", data: JSON.stringify(record) }),
      );
    } finally {
      stop();
    }
  });
}

/** Why a client may not change what is on this machine. */
function refusal(c: Context<AppEnv>, { settings, isFleet }: Services): string | undefined {
  if (isFleet) return "the models of a fleet are on its workers; use denoise pull there";
  if (!settings.pulls) return "the server was started with --no-pull";
  if (settings.apiKeys.length > 0 || maySteward(c.req.raw, c.env?.remoteAddress)) return undefined;
  return "without an --api-key only programs and pages of the server's own machine may";
}

/** @throws {ApiError} 403 for a client that may not change what is on this machine */
export function checkMay(c: Context<AppEnv>, services: Services, what: string): void {
  const why = refusal(c, services);
  if (why === undefined) return;
  throw new ApiError(403, `Cannot ${what}: ${why}`, { code: "pull_not_allowed" });
}
