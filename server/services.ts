/** What the routes work with. */

import type { Hono } from "hono";
import type { BodyShare } from "./http/body.ts";
import type { EngineState, ServedModel, ServedModels } from "./served_models.ts";
import type { PromptEnhancer } from "./prompts/enhancer.ts";
import type { ServerLoras } from "./loras/server_loras.ts";
import { type Queue, unlessAborted } from "./jobs/job.ts";
import type { HubSettings } from "../hub/hub_settings.ts";
import type { Log } from "./log.ts";
import type { FoundModels } from "./models/found_models.ts";
import type { Pulls } from "./models/pulls.ts";
import type { JobStore } from "./jobs/job_store.ts";
import type { Ffmpeg } from "../media/video/mod.ts";
import type { ServiceMetrics } from "./metrics/service_metrics.ts";
import type { Runners } from "./runners.ts";
import type { ServerSettings } from "./settings.ts";
import type { ResultStorage } from "./storage/result_storage.ts";
import { readWebhookUrl } from "./webhooks/address.ts";
import type { Webhooks } from "./webhooks/webhooks.ts";
import type { Workers } from "./workers.ts";
import type { Engine } from "../engine/types.ts";
import { SettingError } from "../models/setting_error.ts";
import type { RequestContext } from "./contract/generation.ts";

export interface Services {
  readonly engine: EngineState;
  /** All models; the first is `engine`. */
  readonly models: ServedModels;
  readonly settings: ServerSettings;
  readonly store: JobStore;
  readonly queue: Queue;
  /** Keeps results; absent when none are kept. */
  readonly storage: ResultStorage | undefined;
  readonly loras: ServerLoras;
  /** Rewrites prompts; absent when not configured. */
  readonly enhancer: PromptEnhancer | undefined;
  readonly ffmpeg: () => Promise<Ffmpeg>;
  readonly workers: Workers;
  /** Models on their way to this machine. */
  readonly pulls: Pulls;
  /** Models of this machine that the server was not told of; absent where it serves none of these. */
  readonly found: FoundModels | undefined;
  readonly hub: () => Promise<HubSettings>;
  /** Bytes that the GPU will give, once that is known. */
  readonly availableBytes: () => number | undefined;
  /** Whether the models are on other machines. */
  readonly isFleet: boolean;
  readonly runners: Runners;
  /** Holds the files that requests bring, until their jobs have ended. */
  readonly inputRoot: string;
  /** Tells clients' servers of ends; absent where nobody signs. */
  readonly webhooks: Webhooks | undefined;
  readonly metrics: ServiceMetrics;
  readonly log: Log;
}

export interface AppEnv {
  /** Set for each request. */
  Variables: {
    /** Names the request in the answer and in the log. */
    requestId: string;
    /** Who sends it, as far as turns are concerned. */
    client: string;
    /** The request's part of the memory for bodies. */
    share: BodyShare;
    job?: string;
  };
  /** Set by the server for each request. */
  Bindings: {
    /** Address of the other end. */
    remoteAddress?: string;
    /** Takes a place for an event stream of a client until its connection closes; false when there is none. */
    openStream?: (client: string) => boolean;
  };
}

/** The app that routes are mounted on. */
export type App = Hono<AppEnv>;

/**
 * The engine of a model. One that loads behind the first one is waited for, unless the server was started otherwise.
 *
 * @throws {ServiceError} 503 until the first one is loaded, or when this one cannot be loaded
 */
export async function engineOf(
  { models, settings }: Pick<Services, "models" | "settings">,
  model: ServedModel,
  signal: AbortSignal,
): Promise<Engine> {
  const isBehind = models.first.engine.status === "ready";
  return isBehind && settings.waitsForModels
    ? await loadedModel(models, model, signal)
    : model.engine.engine;
}

/** A model's engine, when it is loaded. @throws {ServiceError} when it cannot be; {ApiError} 404 where the model was removed meanwhile */
export async function loadedModel(
  models: ServedModels,
  { name, engine }: Pick<ServedModel, "name" | "engine">,
  signal: AbortSignal,
): Promise<Engine> {
  try {
    return await loaded(engine, signal);
  } catch (error) {
    models.pick(name);
    throw error;
  }
}

async function loaded(state: EngineState, signal: AbortSignal): Promise<Engine> {
  let last: Promise<void> | undefined;
  // It may be opened again just when it is there.
  while (state.status === "loading" && state.settled !== last) {
    last = state.settled;
    await unlessAborted(signal, last);
  }
  return state.engine;
}

/** The model that a request names and the settings that count. @throws {ApiError} 404 for none of ours; 503 until the first is loaded */
export async function requestContext(
  services: Services,
  signal: AbortSignal,
  { model, respondsAsync = false }: { model?: unknown; respondsAsync?: boolean } = {},
): Promise<RequestContext> {
  const { models, settings, enhancer, storage } = services;
  await models.seek(model);
  const picked = models.pick(model);
  const { name, loras } = picked;
  return {
    info: (await engineOf(services, picked, signal)).info,
    servedModelName: name,
    strictFields: settings.strictFields,
    defaultSeed: settings.defaultSeed,
    canEnhance: enhancer !== undefined,
    persistent: storage !== undefined,
    respondsAsync,
    ...(settings.webhookSecret === undefined
      ? {}
      : { readWebhook: (url) => readWebhookUrl(url, settings.allowPrivateUrls) }),
    findLoras: async (items) => {
      await engineOf(services, picked, signal);
      return await loras.resolve(items, signal);
    },
    nameLoras: (items) => loras.name(items),
    checkRoom: async (request) => {
      try {
        await (await engineOf(services, picked, signal)).checkRoom(request);
      } catch (error) {
        if (!(error instanceof RangeError) || error instanceof SettingError) throw error;
        // The table that may follow is for those who own the machine.
        throw new RangeError(error.message.split("\n")[0]!);
      }
    },
  };
}
