/**
 * The app on a port, from the first request to a clean end.
 *
 * @module
 */

import { join } from "node:path";
import type { Cards } from "../engine/cards/cards.ts";
import type { Engine } from "../engine/types.ts";
import { createService } from "./app.ts";
import { EngineState } from "./engine_state.ts";
import type { PromptEnhancer } from "./enhancer.ts";
import { InputFolder } from "./inputs/input_folder.ts";
import { TemporaryInputs } from "./inputs/temporary_inputs.ts";
import { JobQueue } from "./jobs/job_queue.ts";
import type { JobRecord } from "./jobs/job_store.ts";
import { watchNeighbours } from "./jobs/neighbours.ts";
import { openJobStore } from "./jobs/open_store.ts";
import { lockedOwners } from "./jobs/server_lock.ts";
import type { StartLora } from "./loras/start_loras.ts";
import { DEFAULT_HOST, listen, type Listener } from "./listen.ts";
import type { Log } from "./log.ts";
import { resumeJobs } from "./resume.ts";
import { startSweeping } from "./retention.ts";
import {
  absolute,
  FREE_MS,
  openOthers,
  openStorage,
  toBeOpened,
  within,
  withLoras,
} from "./start_parts.ts";
import { DEFAULT_MAX_QUEUE, type ServerSettings } from "./settings.ts";
import { describeWriteError } from "../generation/write_error.ts";
import type { S3Settings } from "./storage/s3_settings.ts";
import { openTracing } from "./telemetry/tracing.ts";

/** Opens the engine; tells how far it is, 0 to 1. A signal gives it up. */
export type EngineOpener = (
  onProgress: (fraction: number) => void,
  signal: AbortSignal,
) => Promise<Engine>;

/** A further model of a server. */
export interface OtherSource {
  /** Its public name. */
  readonly name: string;
  /** A folder, a file or a hub id. */
  readonly path: string;
  /** Folders whose LoRAs clients may name; those of the first model when left out. */
  readonly loraFolders?: readonly string[];
  /** Files of LoRAs by names that clients may give in place of their paths. */
  readonly namedLoras?: Readonly<Record<string, string>>;
  /** Opens it. */
  readonly open: EngineOpener;
}

/** What a process is among those that share a database. */
export interface FleetPlace {
  /** PostgreSQL: `postgres://user:password@host/database`. */
  databaseUrl: string;
  /** A front takes requests, a worker runs jobs. */
  role: "front" | "worker" | "both";
}

/** What a server is started with. */
export interface StartOptions {
  /** Opens the model; the server listens while that goes on. A front of a fleet opens none. */
  openEngine: EngineOpener;
  /** Other processes share its jobs; it has its own when left out. */
  fleet?: FleetPlace;
  /** Further models, opened one after the other when that is done. */
  others?: readonly OtherSource[];
  /** Address to bind; `127.0.0.1` when left out. */
  host?: string;
  /** Port to bind; 30000 when left out, 0 for any that is free. */
  port?: number;
  /** Whether a port in use is an error; else a free one is taken. */
  strictPorts?: boolean;
  /** Folder for results and records; `outputs` when left out, `""` to keep nothing. */
  outputPath?: string;
  /** Folder for the files that requests bring, until their jobs have ended; beside the results when left out. */
  inputSavePath?: string;
  /** Run jobs again that a server left in this folder, and leave them when this one stops. */
  resumeJobs?: boolean;
  /** Bucket for results; what cannot be uploaded stays in `outputPath`. */
  s3?: S3Settings;
  /** Most jobs that wait. */
  maxQueue?: number;
  /** LoRAs that are set before the first request is answered. */
  loras?: readonly StartLora[];
  /** What differs from the default settings. */
  settings?: Partial<ServerSettings>;
  /** Rewrites prompts. */
  enhancer?: PromptEnhancer;
  /** Takes lines for the log. */
  log?: Log;
  /** How long a generation may go on when the server stops, in milliseconds; 10 s when left out. */
  graceMs?: number;
}

/** What a server is started with, and what its engines share; one job runs at a time when that is left out. */
export type StartOnCards = StartOptions & { readonly cards?: Cards };

/** A server that listens. */
export interface RunningServer {
  /** Where it listens, without a slash at the end; empty for a worker of a fleet, which does not. */
  readonly url: string;
  /** The port that was bound. */
  readonly port: number;
  /** Resolves when the model is loaded; rejects when it cannot be. */
  readonly ready: Promise<void>;
  /**
   * Stops: refuses what waits, lets a generation finish within the grace, frees the GPU. May be
   * called more than once.
   *
   * @throws {Error} when the GPU's thread is still at work; to exit then, rather than to be killed by
   * a signal, may crash
   */
  close(): Promise<void>;
}

/** How long answers under way may take to end, in milliseconds. */
const CLOSE_MS = 3000;
/** How far the times of files may lag behind the clock, in milliseconds. */
const CLOCK_MS = 50;

/**
 * Starts a server.
 *
 * @param options engine, address, folder and settings
 * @returns the server, listening; its model may still be loading
 * @throws {Error} when the address cannot be bound or the folder cannot be used
 */
export async function startServer(options: StartOnCards): Promise<RunningServer> {
  const { log = () => {}, fleet } = options;
  if (fleet) {
    // What nobody needs who has one machine is not even read.
    const { startFleetServer, startWorker } = await import("./fleet/start.ts");
    const start = fleet.role === "worker" ? startWorker : startFleetServer;
    return await start({ ...options, fleet });
  }
  // Paths stay what they are when the working folder is removed.
  const outputPath = absolute(options.outputPath ?? "outputs");
  const resumes = options.resumeJobs === true;
  const store = await openJobStore(outputPath || undefined, { adopts: resumes, log });
  const temporary = outputPath === "" && !options.inputSavePath ? new TemporaryInputs() : undefined;
  const inputRoot = temporary?.path ??
    absolute(options.inputSavePath || join(outputPath, "inputs"));
  const opened = Promise.withResolvers<Engine>();
  const engine = new EngineState(opened.promise);
  const ready = engine.settled.then(() => {
    if (engine.failure) throw engine.failure;
  });
  ready.catch(() => {});
  const queue = new JobQueue(store, {
    maxQueue: options.maxQueue ?? DEFAULT_MAX_QUEUE,
    resumes,
    ready,
    ...(options.cards ? { places: options.cards } : {}),
    onEnd: (id) => void new InputFolder(inputRoot, id).remove(),
  });
  const others = toBeOpened(options.others);
  const storage = openStorage(outputPath, options.s3, log);
  const tracing = await openTracing();
  const { app, services } = createService({
    engine,
    ...(options.cards ? { cards: options.cards } : {}),
    others: others.map(({ open: _, opened: __, ...other }) => other),
    jobs: { store, queue },
    inputRoot,
    log,
    host: options.host ?? DEFAULT_HOST,
    ...(options.settings ? { settings: options.settings } : {}),
    ...(options.enhancer ? { enhancer: options.enhancer } : {}),
    ...(storage ? { storage } : {}),
    ...(tracing ? { tracing } : {}),
  });

  const startedAt = Date.now() - CLOCK_MS;
  let isAlone = false;
  let listener: Listener;
  let left: JobRecord[];
  try {
    left = await store.reap();
    // Locks of the dead are gone now. Uploads elsewhere may be those of servers with other records.
    isAlone = outputPath !== "" && !options.inputSavePath && lockedOwners(outputPath).length === 1;
    listener = await listen(app, { ...options, log });
  } catch (error) {
    await store.close();
    await temporary?.remove();
    throw error;
  }
  void temporary?.removeDead();
  const opening = new AbortController();
  options.openEngine((fraction) => engine.progress = fraction, opening.signal)
    .then((loaded) => withLoras(loaded, services.loras, options.loras ?? []))
    .then(opened.resolve, opened.reject);
  void openOthers(others, engine.settled, opening.signal, log);
  await resumeJobs(services, left);
  const stopWatching = watchNeighbours(services, {
    take: (jobs) => resumeJobs(services, jobs),
    fail: (error) => log(`Cannot read the records of jobs: ${describeWriteError(error)}`),
  });
  const stopSweeping = startSweeping(services, isAlone ? startedAt : undefined);

  let closing: Promise<void> | undefined;
  const close = async () => {
    stopSweeping();
    stopWatching();
    await queue.close(options.graceMs ?? 10_000);
    services.webhooks?.close();
    await listener.close(CLOSE_MS);
    opening.abort();
    // It may still be loading, and be opened in spite of the signal.
    const freed = [opened, ...others.map((other) => other.opened)]
      .map(({ promise }) => promise.then((late) => late.close(), () => {}));
    await within(FREE_MS, Promise.all(freed).then(() => {})).finally(async () => {
      await store.close();
      await temporary?.remove();
    });
  };
  return {
    url: listener.url,
    port: listener.port,
    ready,
    close: () => closing ??= close(),
  };
}
