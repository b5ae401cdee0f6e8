/** Processes of a fleet: servers that take requests, workers that run jobs, and processes that do both. */

import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LoraUse, RoomRequest } from "../engine/types.ts";
import { type Ffmpeg, findFfmpeg } from "../media/video/mod.ts";
import { LoraError } from "../models/lora/lora_error.ts";
import { createService } from "../server/app.ts";
import { ApiError } from "../server/contract/errors.ts";
import { listen } from "../server/http/listen.ts";
import { startSweeping } from "../server/jobs/retention.ts";
import { explainEngineFailure, loraRefusal, namesOf } from "../server/loras/engine_failure.ts";
import { resumeJobs, Runners } from "../server/runners.ts";
import type { ServedModels } from "../server/served_models.ts";
import type { App, Services } from "../server/services.ts";
import { DEFAULT_SETTINGS, settingsOf, SHARED_RETAIN_MS } from "../server/settings.ts";
import type { RunningServer, StartOnCards } from "../server/start_options.ts";
import { absolute, localModels, OpeningModels, openStorage } from "../server/start_parts.ts";
import type { ResultStorage } from "../server/storage/result_storage.ts";
import { openTracing, type Tracing } from "../server/telemetry/tracing.ts";
import { describeCards, type WorkerRecord } from "../server/workers.ts";
import type { Question } from "./calls.ts";
import { Fleet } from "./fleet.ts";
import { FleetModels } from "./fleet_models.ts";
import { FleetQueue } from "./fleet_queue.ts";
import { FleetWorker } from "./fleet_worker.ts";
import { Leases, reap } from "./leases.ts";
import type { FleetPlace } from "./mod.ts";
import { repeat } from "./repeat.ts";
import { roomIn } from "./requests.ts";
import type { FleetModel } from "./roster.ts";
import { requireSharedFolder } from "./shared_folder.ts";

const CLOSE_MS = 3000;
/** How often a worker looks for jobs of dead workers, in milliseconds: there may be no server. */
const REAP_MS = 4000;

type FleetStartOptions = StartOnCards & { readonly fleet: FleetPlace };

/** What a member works with; tests put some of it in place of what is found. */
interface Parts {
  readonly storage: ResultStorage;
  readonly ffmpeg?: Ffmpeg;
  readonly tracing?: Tracing | undefined;
}

interface FleetMember {
  /** Answers requests, where it is to. */
  readonly front: { readonly app: App; readonly services: Services } | undefined;
  /** Joins the fleet; resolves when it has, and runs jobs where it is to. */
  open(): Promise<void>;
  stop(graceMs: number): Promise<void>;
  /** Leaves the fleet, and lets go of everything. */
  free(): Promise<void>;
}

/** Starts a member of a fleet; the database may still be waited for, and models may be loading. */
export async function startFleetMember(options: FleetStartOptions): Promise<RunningServer> {
  const { log = () => {} } = options;
  const member = await createFleetMember(options);
  const listener = member.front &&
    await listen(member.front.app, { ...options, log }).catch(async (error) => {
      await member.free();
      throw error;
    });
  const ready = member.open();
  ready.catch(() => {});
  let closing: Promise<void> | undefined;
  const close = async () => {
    await member.stop(options.graceMs ?? 10_000);
    await listener?.close(CLOSE_MS);
    await member.free();
    if (!listener) log("Left the fleet");
  };
  const { url = "", port = 0 } = listener ?? {};
  return { url, port, ready, close: () => closing ??= close() };
}

export async function createFleetMember(
  options: FleetStartOptions,
  parts: Partial<Parts> = {},
): Promise<FleetMember> {
  const { log = () => {}, s3, fleet: { databaseUrl, role } } = options;
  const outputPath = absolute(options.outputPath ?? DEFAULT_SETTINGS.outputPath);
  const storage = parts.storage ?? openStorage(outputPath, s3, log, true);
  if (!storage) {
    throw new TypeError(
      "Cannot join a fleet that keeps no results: name a bucket with --s3-bucket, or a folder that " +
        "all members see with --output-path",
    );
  }
  const fleet = new Fleet(databaseUrl, role, log);
  const all: Parts = { ...parts, storage, tracing: parts.tracing ?? await openTracing() };
  const inputs = join(tmpdir(), `denoise-inputs-${fleet.member}`);
  // A process that is both must not remove as a front what it has fetched as a worker.
  const [taken, fetched] = [join(inputs, "taken"), join(inputs, "fetched")];
  const front = role === "worker" ? undefined : createFront(fleet, options, all, taken);
  const worker = role === "front" ? undefined : createWorker(fleet, options, all, fetched);
  const opening = new AbortController();
  const joinFleet = async () => {
    const { signal } = opening;
    await fleet.join(signal, async () => {
      if (!s3) await requireSharedFolder(fleet.database, outputPath);
    });
    if (signal.aborted) return;
    if (front) front.start();
    else void repeat(signal, () => REAP_MS, () => reap(fleet.database));
  };
  return {
    front,
    open: () => {
      const joined = joinFleet();
      joined.catch(() => {});
      return worker?.open(opening.signal, joined) ?? joined;
    },
    stop: async (graceMs) => {
      opening.abort();
      await Promise.all([front?.close(graceMs), worker?.close(graceMs)]);
    },
    free: async () => {
      await fleet.close();
      await Deno.remove(inputs, { recursive: true }).catch(() => {});
      await worker?.free();
    },
  };
}

function createFront(
  fleet: Fleet,
  options: FleetStartOptions,
  { storage, ffmpeg, tracing }: Parts,
  inputRoot: string,
) {
  const settings = settingsOf({ retainMs: SHARED_RETAIN_MS, ...options });
  const models = new FleetModels(fleet, settings.loraMergeMode);
  const queue = new FleetQueue({
    fleet,
    models,
    storage,
    inputRoot,
    maxQueue: settings.maxQueue,
    adopt: (jobs) => resumeJobs(services, jobs),
  });
  const { app, services } = createService({
    engine: models.engine,
    remote: {
      models: models.served,
      engine: models.engine,
      workers: () => fleet.roster.workers.flatMap(({ cards }) => cards as WorkerRecord[]),
    },
    jobs: { store: fleet.store, queue },
    inputRoot,
    log: fleet.log,
    host: settings.host,
    storage,
    settings,
    ...(options.enhancer ? { enhancer: options.enhancer } : {}),
    ...(tracing ? { tracing } : {}),
    ...(ffmpeg ? { ffmpeg } : {}),
  });
  fleet.onRefresh = () => models.refresh();
  let stopSweeping = () => {};
  return {
    app,
    services,
    start: () => {
      queue.start();
      stopSweeping = startSweeping(services);
    },
    close: async (graceMs: number) => {
      stopSweeping();
      await queue.close(graceMs);
      services.webhooks?.close();
    },
  };
}

function createWorker(
  fleet: Fleet,
  options: FleetStartOptions,
  { storage, ffmpeg, tracing }: Parts,
  inputRoot: string,
) {
  const { cards } = options;
  const { log } = fleet;
  const opening = new OpeningModels({ ...options, log });
  const { engine, others } = opening;
  const settings = settingsOf(options);
  const models = localModels({ engine, others, settings, log });
  const leases = new Leases(fleet.database, fleet.member);
  let found: Promise<Ffmpeg> | undefined;
  const runners = new Runners({
    models,
    settings,
    storage: keepingLost(storage, leases),
    enhancer: undefined,
    tracing,
    ffmpeg: () => found ??= ffmpeg ? Promise.resolve(ffmpeg) : findFfmpeg(),
  });
  const worker = new FleetWorker({ fleet, leases, models, runners, places: cards, inputRoot });
  fleet.calls.reply = async (question) => {
    try {
      return await reply(question, models);
    } finally {
      if (question.isToPrepare) worker.notePrepared(question.model, question.args as LoraUse[]);
    }
  };
  fleet.describe = async () => ({
    state: { ...worker.state, cards: cards ? describeCards(cards) : [] },
    models: await describeModels(models),
  });
  const beat = () => fleet.beat().catch(fleet.tellAway);
  return {
    /** Opens the models, then takes jobs. */
    open: async (signal: AbortSignal, joined: Promise<void>) => {
      void opening.open(signal).then(beat);
      // A member that cannot join is told so at once, and not after a model was loaded.
      await Promise.race([engine.settled, joined.then(() => engine.settled)]);
      if (engine.failure) throw engine.failure;
      await joined;
      if (signal.aborted) return;
      await beat();
      worker.start();
    },
    close: (graceMs: number) => worker.close(graceMs),
    free: () => opening.free(),
  };
}

/** Storage that leaves the files of lost jobs: another worker's have the same names. */
function keepingLost(storage: ResultStorage, leases: Leases): ResultStorage {
  return new Proxy(storage, {
    get(target, name) {
      if (name === "remove") {
        return async (file: { name: string }) => {
          const [id = ""] = /^\w+_[0-9a-f-]{36}/.exec(file.name) ?? [];
          if (!leases.note(id).isLost) await target.remove(file);
        };
      }
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

async function describeModels(models: ServedModels): Promise<FleetModel[]> {
  const known = models.all.filter(({ engine }) => engine.status === "ready");
  return await Promise.all(known.map(async ({ name, path, engine, loras }) => ({
    name,
    path,
    info: engine.engine.info,
    loras: (await loras.offered()).map(({ name, path }) => ({ name, path })),
  })));
}

async function reply(
  { method, model, args, isToPrepare }: Question,
  models: ServedModels,
): Promise<unknown> {
  const { engine: { engine }, loras } = models.pick(model);
  if (method === "check_room") return await roomIn(engine, args as RoomRequest);
  if (method !== "check_loras") {
    await engine[method]();
    return null;
  }
  const asked = args as LoraUse[];
  const files = await Promise.all(asked.map(({ path }) => loras.find(path)));
  const local = asked.map((use, index) => ({ ...use, path: files[index]! }));
  const checked = isToPrepare ? engine.prepareLoras(local) : engine.checkLoras(local);
  const reports = await checked.catch((error) => {
    const names = namesOf(asked.map(({ path }, index) => ({ path, file: files[index]! })) as never);
    const refusal = loraRefusal(error, "lora_path", names);
    if (refusal === error || !(refusal instanceof ApiError)) return explainEngineFailure(error);
    // Without the paths of this machine; the field that named it is for the server to say.
    throw new LoraError(refusal.message, refusal.body.problems);
  });
  return reports.map((report) => ({ ...report, path: asked[report.index]!.path }));
}
