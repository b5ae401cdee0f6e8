/**
 * Processes of a fleet: servers that take requests, workers that run jobs, and those that do both.
 */

import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Ffmpeg, findFfmpeg } from "../media/video/mod.ts";
import type { Engine, LoraUse, RoomRequest } from "../engine/types.ts";
import { LoraError } from "../models/lora/lora_error.ts";
import { createService } from "../server/app.ts";
import { ApiError } from "../server/contract/errors.ts";
import { type ImageRequest, outputSeeds } from "../server/images/image_request.ts";
import { EngineState } from "../server/engine_state.ts";
import { InputFolder } from "../server/inputs/input_folder.ts";
import type { JobRecord } from "../server/jobs/job_store.ts";
import { explainEngineFailure } from "../server/loras/engine_failure.ts";
import { listen, type Listener } from "../server/http/listen.ts";
import { localModels } from "../server/local_models.ts";
import { namesOf } from "../server/loras/job_lora.ts";
import { loraRefusal } from "../server/loras/lora_refusal.ts";
import { toApiError } from "../server/http/respond.ts";
import { resumeJobs } from "../server/jobs/resume.ts";
import { startSweeping } from "../server/jobs/retention.ts";
import { Runners } from "../server/runners.ts";
import type { RunningServer, StartOnCards } from "../server/start_options.ts";
import type { FleetPlace } from "./mod.ts";
import type { ServedModels } from "../server/served_models.ts";
import type { App, Services } from "../server/services.ts";
import { DEFAULT_SETTINGS } from "../server/settings.ts";
import {
  absolute,
  FREE_MS,
  openOthers,
  openStorage,
  toBeOpened,
  within,
} from "../server/start_parts.ts";
import type { ResultStorage } from "../server/storage/result_storage.ts";
import { openTracing, type Tracing } from "../server/telemetry/tracing.ts";
import { describeCards, type WorkerRecord } from "../server/workers.ts";
import type { VideoRequest } from "../server/videos/video_request.ts";
import { OutOfMemoryError } from "../runtime/errors.ts";
import { Calls, type Question, type RoomAnswer } from "./calls.ts";
import { Fleet } from "./fleet.ts";
import { FleetModels } from "./fleet_models.ts";
import { FleetQueue } from "./fleet_queue.ts";
import { FleetWorker } from "./fleet_worker.ts";
import { LeaseStore } from "./lease_store.ts";
import { PostgresJobStore } from "./postgres_store.ts";
import type { FleetModel } from "./roster.ts";
import { requireSharedFolder } from "./shared_folder.ts";

/** How long answers under way may take to end, in milliseconds. */
const CLOSE_MS = 3000;

/** What a member of a fleet is started with. */
type FleetStartOptions = StartOnCards & { readonly fleet: FleetPlace };

/** A server of a fleet that does not listen. */
interface FleetService {
  /** Answers requests. */
  readonly app: App;
  /** Services that the routes work with. */
  readonly services: Services;
  /** Joins the fleet; resolves when it has, and runs jobs where it is to. */
  open(): Promise<void>;
  /** Stops taking requests and jobs; then `free` lets go of everything. */
  stop(graceMs: number): Promise<void>;
  /** Leaves the fleet. */
  free(): Promise<void>;
}

/**
 * Makes a server of a fleet.
 *
 * @param options database, storage, and models where it runs jobs as well
 * @param parts what tests put in place of what is found
 */
export async function createFleetService(
  options: FleetStartOptions,
  parts: {
    readonly storage?: ResultStorage;
    readonly ffmpeg?: Ffmpeg;
    readonly tracing?: Tracing;
  } = {},
): Promise<FleetService> {
  const { log = () => {} } = options;
  const settings = { ...DEFAULT_SETTINGS, ...options };
  const { fleet, storage } = await prepare(options);
  const results = parts.storage ?? storage.results;
  const { database, store, bell, roster, member } = fleet;
  const calls = new Calls(database, bell, member, undefined);
  const models = new FleetModels({ database, roster, calls, ...settings });
  const inputRoot = inputFolder(member);
  const queue = new FleetQueue({
    ...{ database, store, bell, roster, member },
    maxQueue: settings.maxQueue,
    memoryFor: (model, request) => models.memoryFor(model, request),
    adopt: (jobs) => resumeJobs(services, jobs),
    fail: (error) => fleet.tellAway(error),
    clean: (record) => removeResults(record, results),
    onQueued: (id) => void new InputFolder(inputRoot, id).remove(),
  });
  const tracing = parts.tracing ?? await openTracing();
  const { app, services } = createService({
    engine: models.engine,
    remote: {
      models: models.served,
      engine: models.engine,
      workers: () => roster.workers.flatMap(({ cards }) => cards as WorkerRecord[]),
    },
    jobs: { store, queue },
    inputRoot,
    log,
    host: settings.host,
    storage: results,
    settings,
    ...(options.enhancer ? { enhancer: options.enhancer } : {}),
    ...(tracing ? { tracing } : {}),
    ...(parts.ffmpeg ? { ffmpeg: parts.ffmpeg } : {}),
  });
  fleet.onRefresh = () => models.refresh();
  const worker = options.fleet.role === "both"
    ? prepareWorker(fleet, results, options, { ...parts, tracing })
    : undefined;
  const opening = new AbortController();
  let stopSweeping = () => {};
  const join = async () => {
    await fleet.join(opening.signal, storage.check);
    if (opening.signal.aborted) return;
    queue.start();
    stopSweeping = startSweeping(services);
  };
  return {
    app,
    services,
    open: () => {
      const joined = join();
      joined.catch(() => {});
      return worker?.open(opening.signal, joined) ?? joined;
    },
    stop: async (graceMs) => {
      stopSweeping();
      opening.abort();
      await Promise.all([queue.close(graceMs), worker?.close(graceMs)]);
      services.webhooks?.close();
    },
    free: async () => {
      await fleet.close();
      await Deno.remove(inputRoot, { recursive: true }).catch(() => {});
      await worker?.free();
    },
  };
}

/**
 * Starts a server of a fleet.
 *
 * @param options database, storage, address, and models where it runs jobs as well
 * @returns the server, listening; the database may still be waited for
 * @throws {Error} when the address cannot be bound
 */
export async function startFleetServer(options: FleetStartOptions): Promise<RunningServer> {
  const { log = () => {} } = options;
  const service = await createFleetService(options);
  let listener: Listener;
  try {
    listener = await listen(service.app, { ...options, log });
  } catch (error) {
    await service.free();
    throw error;
  }
  const ready = service.open();
  ready.catch(() => {});
  let closing: Promise<void> | undefined;
  const close = async () => {
    await service.stop(options.graceMs ?? 10_000);
    await listener.close(CLOSE_MS);
    await service.free();
  };
  return { url: listener.url, port: listener.port, ready, close: () => closing ??= close() };
}

/**
 * Starts a worker of a fleet.
 *
 * @returns the worker; its models may still be loading
 */
export async function startWorker(options: FleetStartOptions): Promise<RunningServer> {
  const { log = () => {} } = options;
  const { fleet, storage } = await prepare(options);
  const worker = prepareWorker(fleet, storage.results, options, { tracing: await openTracing() });
  const opening = new AbortController();
  const joined = fleet.join(opening.signal, storage.check);
  const ready = worker.open(opening.signal, joined);
  ready.catch(() => {});
  // Where there is no server at all, somebody has to.
  const reaping = setInterval(() => {
    if (fleet.isReady) void fleet.store.reap().catch(() => {});
  }, 4000);
  let closing: Promise<void> | undefined;
  const close = async () => {
    clearInterval(reaping);
    opening.abort();
    await worker.close(options.graceMs ?? 10_000);
    await fleet.close();
    await worker.free();
    log("Left the fleet");
  };
  return { url: "", port: 0, ready, close: () => closing ??= close() };
}

/** A worker whose models are not open yet. */
interface PreparedWorker {
  /** Opens the models, then takes jobs. */
  open(signal: AbortSignal, joined: Promise<void>): Promise<void>;
  /** Takes no more jobs, and gives back what is not done in the grace. */
  close(graceMs: number): Promise<void>;
  /** Frees the devices. */
  free(): Promise<void>;
}

async function prepare(options: FleetStartOptions) {
  const { log = () => {}, fleet: { databaseUrl, role: kind } } = options;
  const outputPath = absolute(options.outputPath ?? DEFAULT_SETTINGS.outputPath);
  const results = openStorage(outputPath, options.s3, log, true);
  if (!results) {
    throw new TypeError(
      "Cannot join a fleet that keeps no results: name a bucket with --s3-bucket, or a folder that " +
        "all members see with --output-path",
    );
  }
  const fleet = await Fleet.prepare({ databaseUrl, kind, log });
  const check = async () => {
    if (!options.s3) await requireSharedFolder(fleet.database, outputPath);
  };
  return { fleet, storage: { results, check } };
}

function prepareWorker(
  fleet: Fleet,
  storage: ResultStorage,
  options: FleetStartOptions,
  { ffmpeg, tracing }: { readonly ffmpeg?: Ffmpeg; readonly tracing: Tracing | undefined },
): PreparedWorker {
  const { log = () => {}, openEngine } = options;
  const { database, bell, roster, member } = fleet;
  // Whoever changes records reads them as they are.
  const store = new PostgresJobStore(database);
  const opened = Promise.withResolvers<Engine>();
  opened.promise.catch(() => {});
  const engine = new EngineState(opened.promise);
  const others = toBeOpened(options.others);
  for (const { opened } of others) opened.promise.catch(() => {});
  const settings = { ...DEFAULT_SETTINGS, ...options };
  const models = localModels({ engine, others, settings, log });
  const inputRoot = inputFolder(member);
  const leases = new LeaseStore(database, store, member);
  const leased = keepingLost(storage, leases);
  let found: ReturnType<typeof findFfmpeg> | undefined;
  const runners = new Runners({
    ...{ models, settings, storage: leased, enhancer: undefined, tracing },
    ffmpeg: () => found ??= ffmpeg ? Promise.resolve(ffmpeg) : findFfmpeg(),
  });
  const worker = new FleetWorker({
    ...{ database, store, bell, roster, member, models, runners, inputRoot, log, leases },
    ...(options.cards ? { places: options.cards } : {}),
  });
  new Calls(database, bell, member, async (question) => {
    try {
      return await reply(question, models);
    } catch (error) {
      // Whoever asked is not told of our own failures.
      if (!(error instanceof LoraError)) toApiError(error, `Question ${question.method}`, log);
      throw error;
    } finally {
      if (question.isToPrepare) worker.notePrepared(question.model, question.args as LoraUse[]);
    }
  });
  fleet.describe = async () => ({
    state: { ...worker.state, cards: options.cards ? describeCards(options.cards) : [] },
    models: await aboutOf(models),
  });
  return {
    open: async (signal, joined) => {
      openEngine((fraction) => engine.progress = fraction, signal)
        .then(opened.resolve, opened.reject);
      void openOthers(others, engine.settled, signal, log)
        .then(() => fleet.beat()).catch((error) => fleet.tellAway(error));
      // Who cannot join is told so at once, and not after a model was loaded.
      await Promise.race([engine.settled, joined.then(() => engine.settled)]);
      if (engine.failure) throw engine.failure;
      await joined;
      if (signal.aborted) return;
      await fleet.beat().catch((error) => fleet.tellAway(error));
      worker.start();
    },
    close: (graceMs) => worker.close(graceMs),
    free: async () => {
      const freed = [opened, ...others.map((other) => other.opened)]
        .map(({ promise }) => promise.then((late) => late.close(), () => {}));
      await within(FREE_MS, Promise.all(freed).then(() => {}));
      await Deno.remove(inputRoot, { recursive: true }).catch(() => {});
    },
  };
}

/** Removes what a job may have kept that has failed or was cancelled. */
async function removeResults(
  { id, kind, request }: JobRecord,
  storage: ResultStorage,
): Promise<void> {
  const isVideo = kind === "video";
  const { format } = request as ImageRequest;
  const ending = isVideo ? "mp4" : format === "jpeg" ? "jpg" : format;
  const { length } = isVideo
    ? (request as VideoRequest).seeds
    : outputSeeds(request as ImageRequest);
  const names = length > 1 ? Array.from({ length }, (_, index) => `${id}_${index}`) : [id];
  for (const name of names) await storage.removeNamed(`${name}.${ending}`);
}

/** Where the files of requests lie while a server or a worker needs them. */
function inputFolder(member: string): string {
  return join(tmpdir(), `denoise-inputs-${member}`);
}

/** What another worker makes anew has the same names. */
function keepingLost(storage: ResultStorage, leases: LeaseStore): ResultStorage {
  return new Proxy(storage, {
    get(target, name) {
      if (name === "remove") {
        return async (file: { name: string }) => {
          const [id = ""] = /^\w+_[0-9a-f-]{36}/.exec(file.name) ?? [];
          if (!leases.isLost(id)) await target.remove(file);
        };
      }
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** What servers are told of a worker's models. */
async function aboutOf(models: ServedModels): Promise<FleetModel[]> {
  const known = models.all.filter(({ engine }) => engine.status === "ready");
  return await Promise.all(known.map(async ({ name, path, engine, loras }) => ({
    ...{ name, path, info: engine.engine.info },
    loras: (await loras.offered()).map(({ name, path }) => ({ name, path })),
  })));
}

/** Whether an engine can hold a request. */
async function checkRoom(engine: Engine, request: RoomRequest): Promise<RoomAnswer> {
  try {
    await engine.checkRoom(request);
    return {};
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // The table that may follow is for those who own the machine.
    const refusal = error.message.split("\n")[0]!;
    return {
      refusal,
      ...(error instanceof OutOfMemoryError ? { needs: error.requestedBytes } : {}),
    };
  }
}

/** Answers servers. */
async function reply(
  { method, model, args, isToPrepare }: Question,
  models: ServedModels,
): Promise<unknown> {
  const { engine, loras } = models.find(model) ?? models.first;
  if (method === "check_room") return await checkRoom(engine.engine, args as RoomRequest);
  if (method !== "check_loras") {
    await engine.engine[method]();
    return null;
  }
  const asked = args as LoraUse[];
  const found = await Promise.all(asked.map(async (use) => ({
    use,
    file: await loras.find(use.path),
  })));
  const names = namesOf(found.map(({ use, file }) => ({ path: use.path, file }) as never));
  const local = found.map(({ use, file }) => ({ ...use, path: file }));
  const checked = isToPrepare ? engine.engine.prepareLoras(local) : engine.engine.checkLoras(local);
  const reports = await checked.catch((error) => {
    const refusal = loraRefusal(error, "lora_path", names);
    if (refusal === error || !(refusal instanceof ApiError)) return explainEngineFailure(error);
    // Without the paths of this machine; the field that named it is for the server to say.
    throw new LoraError(refusal.message, refusal.body.problems);
  });
  return reports.map((report) => ({ ...report, path: asked[report.index]!.path }));
}
