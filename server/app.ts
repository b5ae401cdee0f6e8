/** The service as one function from requests to answers. */

import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
import { matchedRoutes } from "hono/route";
import { getPath } from "hono/utils/url";
import type { Scheduler } from "../engine/cards/scheduler.ts";
import type { Engine } from "../engine/types.ts";
import { isAutomatic } from "../hub/cached_parts.ts";
import { isSteering } from "../hub/steering_parts.ts";
import { partNamed } from "../hub/catalogue_parts.ts";
import { type HubSettings, hubSettings } from "../hub/hub_settings.ts";
import { onBehalfOf } from "../media/isolated/slots.ts";
import { type Ffmpeg, findFfmpeg } from "../media/video/mod.ts";
import { allowedOrigin, checkApiKeys, checkKey, checkOrigin, clientOf } from "./http/access.ts";
import { BodyMemory, checkEncoding } from "./http/body.ts";
import { ApiError } from "./contract/errors.ts";
import type { EngineState, ServedModels } from "./served_models.ts";
import type { PromptEnhancer } from "./prompts/enhancer.ts";
import { JobQueue } from "./jobs/job_queue.ts";
import { jobRecord } from "./routes/job_record.ts";
import type { JobSummary, Queue } from "./jobs/job.ts";
import type { JobRecord, JobStore } from "./jobs/job_store.ts";
import { SqliteJobStore } from "./jobs/sqlite_store.ts";
import type { Log } from "./log.ts";
import { engineState, localModels, type OtherModel } from "./start_parts.ts";
import { ServiceMetrics } from "./metrics/service_metrics.ts";
import { toApiError } from "./http/respond.ts";
import { PLAYGROUND_FOLDER } from "./routes/documents.ts";
import { mountRoutes } from "./routes/table.ts";
import type { FoundModels } from "./models/found_models.ts";
import { Pulls } from "./models/pulls.ts";
import { Runners } from "./runners.ts";
import { webuiError } from "./sdapi/answers.ts";
import { CONTROLNET, mountSdapi, SDAPI } from "./sdapi/routes.ts";
import type { App, AppEnv, Services } from "./services.ts";
import { DEFAULT_SETTINGS, type ServerSettings } from "./settings.ts";
import type { ResultStorage } from "./storage/result_storage.ts";
import { tracedRequests, type Tracing } from "./telemetry/tracing.ts";
import { readSecret, Webhooks } from "./webhooks/webhooks.ts";
import { type WorkerRecord, Workers } from "./workers.ts";

/** Longest path in a line of the log, in characters; ours are shorter. */
const MAX_LOGGED_PATH = 200;

interface AppOptions {
  /** The model, loaded or loading. */
  engine: Engine | Promise<Engine> | EngineState;
  others?: readonly OtherModel[];
  /** Models of this machine that come and go. */
  found?: FoundModels;
  /** Models that run elsewhere, instead of this server's own, and the first one's state. */
  remote?: {
    readonly models: ServedModels;
    readonly engine: EngineState;
    readonly workers: () => WorkerRecord[];
  };
  /** What the engines share; one of which nothing is known by default. */
  cards?: Scheduler;
  /** What differs from {@link DEFAULT_SETTINGS}. */
  settings?: Partial<ServerSettings>;
  /** Records and queue; in memory by default. */
  jobs?: { store: JobStore; queue: Queue };
  /** Keeps results; nothing is kept by default, and there are no links. */
  storage?: ResultStorage;
  enhancer?: PromptEnhancer;
  /** Reads and writes video files; found on this machine by default. */
  ffmpeg?: Ffmpeg;
  /** Holds the files of requests; a folder of the system's by default. */
  inputRoot?: string;
  /** Address that the app is bound to: on a loopback one it answers to no other names. */
  host?: string;
  tracing?: Tracing;
  /** Where models come from; the hub of the environment by default. */
  hub?: () => Promise<HubSettings>;
  log?: Log;
}

/** A Hono app: `app.fetch` answers requests. */
export function createApp(options: AppOptions): App {
  return createService(options).app;
}

export function createService(options: AppOptions): { app: App; services: Services } {
  const store = options.jobs?.store ?? SqliteJobStore.inMemory();
  let ffmpeg: Promise<Ffmpeg> | undefined;
  const shared = {
    engine: options.remote?.engine ?? engineState(options.engine),
    settings: { ...DEFAULT_SETTINGS, ...options.settings },
    storage: options.storage,
    enhancer: options.enhancer,
    ffmpeg: () => ffmpeg ??= options.ffmpeg ? Promise.resolve(options.ffmpeg) : findFfmpeg(),
  };
  const log = options.log ?? (() => {});
  const models = options.remote?.models ??
    localModels({ ...shared, others: options.others ?? [], found: options.found, log });
  const { maxQueue } = shared.settings;
  const hub = () =>
    (options.hub ?? hubSettings)().catch((cause: Error) => {
      throw new ApiError(503, cause.message, { code: "hub_unavailable", cause });
    });
  const availableBytes = () =>
    shared.engine.status === "ready"
      ? shared.engine.engine.info.deviceBytes ?? options.cards?.likelyBytes
      : undefined;
  const queue = options.jobs?.queue ?? new JobQueue(store, { maxQueue });
  const services: Services = {
    ...shared,
    store,
    queue,
    models,
    get loras() {
      return models.first.loras;
    },
    metrics: new ServiceMetrics({ engine: shared.engine, store, queue }),
    runners: new Runners({ ...shared, models, tracing: options.tracing }),
    hub,
    availableBytes,
    pulls: new Pulls({
      hub,
      log,
      availableBytes,
      onDone: (name) => {
        const part = partNamed(name)?.part;
        if (!part) void options.found?.refresh(true);
        else if (isAutomatic(part) || isSteering(part)) {
          whenIdle(queue, () => void options.found?.reload());
        }
      },
    }),
    found: options.found,
    isFleet: options.remote !== undefined,
    workers: new Workers({ remote: options.remote?.workers, cards: options.cards, models, queue }),
    webhooks: webhooksOf(shared.settings, log),
    inputRoot: options.inputRoot ?? join(tmpdir(), `denoise-inputs-${crypto.randomUUID()}`),
    log,
  };
  const { settings } = services;
  checkApiKeys(settings.apiKeys);
  const bodies = new BodyMemory(settings.maxBodyMemory);
  const app: App = new Hono<AppEnv>({ getPath: plainPath });
  queue.onEnd((id) => void noteEnd(id, services).catch(() => {}));
  if (services.webhooks) queue.onEnd((id) => void tellEnd(id, services).catch(() => {}));

  // Pages and probes ask again and again while the model is loaded: once tells all of it.
  const waits = new Set<string>();
  const isKnownWait = (route: string | undefined, status: number) => {
    if (shared.engine.status !== "loading") waits.clear();
    if (shared.engine.status !== "loading" || status !== 503 || route === undefined) return false;
    const isKnown = waits.has(route);
    waits.add(route);
    return isKnown;
  };

  if (options.tracing) app.use(tracedRequests(options.tracing, routeOf));
  app.use(async (c, next) => {
    const since = performance.now();
    const sent = c.req.header("x-request-id") ?? "";
    const requestId = /^[\w.-]{1,128}$/.test(sent) ? sent : `req_${crypto.randomUUID()}`;
    c.set("requestId", requestId);
    // Where no key is asked for, all clients may send the same one, or each time another.
    const owner = settings.apiKeys.length > 0 ? clientOf(c.req.raw) : undefined;
    const client = owner ?? c.env?.remoteAddress ?? "";
    c.set("client", client);
    const share = bodies.open(client);
    c.set("share", share);
    try {
      await onBehalfOf.run(client, next);
    } finally {
      share.release();
    }
    c.res.headers.set("x-request-id", requestId);
    // No browser is to take an answer for a script or a page of this origin.
    c.res.headers.set("x-content-type-options", "nosniff");
    const elapsed = performance.now() - since;
    const ms = Math.round(elapsed);
    const { method } = c.req;
    const path = c.req.path.slice(0, MAX_LOGGED_PATH);
    const { status } = c.res;
    const job = c.get("job");
    // A page is many files, of which nobody wants to hear.
    const isAsset = status === 200 && path.startsWith(PLAYGROUND_FOLDER);
    const route = routeOf(c);
    services.metrics.request({ route, method, status, seconds: elapsed / 1000 });
    if (isAsset || (method === "GET" && isKnownWait(route, status))) return;
    log(`${method} ${path} ${status} ${ms} ms ${requestId}`, {
      level: status >= 500 ? "error" : "info",
      request_id: requestId,
      method,
      path,
      status,
      ms,
      ...(job === undefined ? {} : { job }),
    });
  });
  app.use(cors({
    origin: (origin) => allowedOrigin(origin, settings.corsOrigins),
    allowMethods: ["GET", "HEAD", "POST", "DELETE"],
    exposeHeaders: [
      "x-request-id",
      "x-ignored-fields",
      "x-drawn-at",
      "x-cut-prompts",
      "x-rounded-fields",
      "x-should-retry",
      "idempotent-replayed",
      "retry-after",
    ],
    maxAge: 600,
  }));
  app.use((c, next) => {
    // Without an address of its own an app answers to any name.
    checkOrigin(c.req.raw, { ...settings, host: options.host });
    checkKey(c.req.raw, settings.apiKeys);
    checkEncoding(c.req.raw);
    return next();
  });

  mountRoutes(app, services);
  if (settings.enableSdapi) mountSdapi(app, services);

  app.notFound((c) => {
    const where = isSdapi(c.req.path) ? "docs/http-api.md" : "/docs";
    const hint = /^\/(?:images|videos|models|jobs)\b/.test(c.req.path)
      ? `the path begins with /v1: /v1${c.req.path}`
      : `${where} lists those that are`;
    const message = `Cannot ${c.req.method} ${c.req.path}: there is no such path; ${hint}`;
    return answer(c, new ApiError(404, message, { code: "not_found", detail: "Not Found" }));
  });
  app.onError((thrown, c) => answer(c, toApiError(thrown, c.get("requestId"), log)));
  return { app, services };
}

/** Counts a job that has ended, and tells the log. */
async function noteEnd(id: string, { store, metrics, log }: Services): Promise<void> {
  const record = await store.get(id);
  if (!record) return;
  metrics.job(record);
  const { kind, status, startedAt, endedAt, error } = record;
  const ms = startedAt === null || endedAt === null ? undefined : Math.max(0, endedAt - startedAt);
  const after = ms === undefined ? "before it began" : `after ${(ms / 1000).toFixed(1)} s`;
  log(`${id} ${status} ${after}${error ? `: ${error.code}` : ""}`, {
    level: status === "failed" ? "error" : "info",
    job: id,
    kind,
    status,
    ...(ms === undefined ? {} : { ms }),
  });
}

/** A failure in the dialect of the path. */
function answer({ req }: Context<AppEnv>, error: ApiError): Response {
  const body = isSdapi(req.path) ? webuiError(error) : error.body;
  return Response.json(body, { status: error.status, headers: { ...error.headers } });
}

function isSdapi(path: string): boolean {
  return path.startsWith(`${SDAPI}/`) || path.startsWith(`${CONTROLNET}/`);
}

function webhooksOf(
  { webhookSecret, allowPrivateUrls }: ServerSettings,
  log: Log,
): Webhooks | undefined {
  if (webhookSecret === undefined) return undefined;
  return new Webhooks({ secret: readSecret(webhookSecret), allowPrivate: allowPrivateUrls, log });
}

/** Tells the client's server of a job that has ended. */
async function tellEnd(
  id: string,
  { store, storage, settings: { publicUrl }, webhooks }: Services,
): Promise<void> {
  const target = webhookOf(await store.get(id));
  if (!target) return;
  await webhooks?.send(id, target, async () => {
    const job = await store.get(id);
    if (!job) return undefined;
    const data = await jobRecord(job, { place: null, isOwn: true, storage, publicUrl });
    return { type: `job.${job.status}`, data };
  });
}

/** Where the end of a job is told; nothing where nobody wants to hear of it. */
function webhookOf(job: JobRecord | undefined): { url: string; client: string } | undefined {
  const { webhookUrl: url } = (job?.request ?? {}) as { webhookUrl?: string };
  if (!job || url === undefined) return undefined;
  const { owner } = (job.summary ?? {}) as Partial<JobSummary>;
  return { url, client: owner || new URL(url).host };
}

/** The pattern that a request's path matched; what middleware matches is everything. */
function routeOf(c: Context<AppEnv>): string | undefined {
  const path = matchedRoutes(c).at(-1)?.path;
  return path === "/*" ? undefined : path;
}

/** The path without slashes too many, and without a second `/v1`: addresses of servers are written with and without both. */
function plainPath(request: Request): string {
  return getPath(request).replace(/\/{2,}/g, "/").replace(/^(?:\/v1){2,}(?=\/)/, "/v1")
    .replace(/(?<=.)\/$/, "");
}

/** Calls at once, or when no job runs or waits any more. */
function whenIdle(queue: Queue, call: () => void): void {
  let isWanted = true;
  const look = () => {
    if (!isWanted || queue.running.length + queue.waiting > 0) return;
    isWanted = false;
    call();
  };
  queue.onEnd(look);
  look();
}
