/** The app around a fake engine, with results in a folder of its own. */

import { join } from "node:path";
import type { ScheduledModel } from "../../engine/cards/scheduled_model.ts";
import { Scheduler } from "../../engine/cards/scheduler.ts";
import { createApp } from "../../server/app.ts";
import { type Ffmpeg, findFfmpeg } from "../../media/video/mod.ts";
import type { PromptEnhancer } from "../../server/prompts/enhancer.ts";
import { InputFolder } from "../../server/inputs/input_folder.ts";
import { JobQueue } from "../../server/jobs/job_queue.ts";
import type { Queue } from "../../server/jobs/job.ts";
import type { HubSettings } from "../../hub/hub_settings.ts";
import type { JobStore } from "../../server/jobs/job_store.ts";
import { openJobStore } from "../../server/jobs/write_behind.ts";
import type { Log } from "../../server/log.ts";
import type { App } from "../../server/services.ts";
import type { ServerSettings } from "../../server/settings.ts";
import { LocalStorage } from "../../server/storage/local.ts";
import type { ResultStorage } from "../../server/storage/result_storage.ts";
import type { Tracing } from "../../server/telemetry/tracing.ts";
import { FakeEngine } from "./engine.ts";

/** A service and how to talk to it. */
export interface TestService extends AsyncDisposable {
  app: App;
  engine: FakeEngine;
  store: JobStore;
  queue: Queue;
  /** Where results are kept. */
  folder: string;
  /** Where the files of requests are kept. */
  inputRoot: string;
  /** Lines of the log so far. */
  lines: string[];
  get(path: string, init?: RequestInit): Promise<Response>;
  post(path: string, body: unknown, init?: RequestInit): Promise<Response>;
}

/** What to start the service with. */
interface TestServiceOptions {
  engine?: FakeEngine;
  /** Engines of one model, each on a card of its own, in place of `engine`. */
  cards?: readonly FakeEngine[];
  /** Further models by name. */
  others?: Readonly<Record<string, FakeEngine>>;
  settings?: Partial<ServerSettings>;
  maxQueue?: number;
  keep?: boolean;
  /** Keeps results; the default is a folder on the disk. */
  storage?: (local: LocalStorage) => ResultStorage;
  enhancer?: PromptEnhancer;
  /** Takes the log; its lines are kept by default. */
  log?: Log;
  /** Makes spans. */
  tracing?: Tracing | undefined;
  /** Where models come from. */
  hub?: HubSettings | (() => Promise<HubSettings>);
  /** Reads and writes video files; the bundled build by default, which every machine has. */
  ffmpeg?: Ffmpeg;
}

/** An address of PostgreSQL: services are servers of fleets then, each with a database of its own. */
const DATABASE = Deno.env.get("DENOISE_TEST_DATABASE");

/** Makes a service; dispose of it to remove its folder. */
export async function testService(options: TestServiceOptions = {}): Promise<TestService> {
  if (DATABASE !== undefined && options.keep !== false) {
    return await fleetService(options, DATABASE);
  }
  const folder = await Deno.makeTempDir();
  const { engine = new FakeEngine(), hub } = options;
  const { store } = await openJobStore(folder);
  const inputRoot = join(folder, "inputs");
  const pool = options.cards && await openPool(options.cards);
  const queue = new JobQueue(store, {
    maxQueue: options.maxQueue ?? 8,
    ...(pool ? { places: pool.cards } : {}),
    onEnd: (id) => void new InputFolder(inputRoot, id).remove(),
  });
  const lines: string[] = [];
  const local = new LocalStorage(join(folder, "results"));
  const app = createApp({
    engine: pool?.engine ?? engine,
    ...(pool ? { cards: pool.cards } : {}),
    others: Object.entries(options.others ?? {})
      .map(([name, engine]) => ({ name, path: `fake/${name}`, engine })),
    jobs: { store, queue },
    settings: { modelPath: "fake/gradients", servedModelName: "gradients", ...options.settings },
    ffmpeg: options.ffmpeg ?? await findFfmpeg({ onlyBundled: true }),
    inputRoot,
    log: options.log ??
      ((line, fields) => lines.push(fields?.stack ? `${line}\n${fields.stack}` : line)),
    ...(options.keep === false ? {} : { storage: options.storage?.(local) ?? local }),
    ...(options.enhancer ? { enhancer: options.enhancer } : {}),
    ...(options.tracing ? { tracing: options.tracing } : {}),
    ...(hub ? { hub: typeof hub === "function" ? hub : () => Promise.resolve(hub) } : {}),
  });
  return {
    ...{ app, engine, store, queue, folder, inputRoot, lines },
    ...talking(app),
    async [Symbol.asyncDispose]() {
      await queue.close(0);
      await store.close();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** A service as a server of a fleet, which runs its jobs itself. */
async function fleetService(options: TestServiceOptions, database: string): Promise<TestService> {
  const { createFleetMember } = await import("../../fleet/start.ts");
  const folder = await Deno.makeTempDir();
  const engine = options.engine ?? new FakeEngine();
  const lines: string[] = [];
  const local = new LocalStorage(join(folder, "results"));
  const member = await createFleetMember({
    fleet: { databaseUrl: await newDatabase(database), role: "both" },
    openEngine: () => Promise.resolve(engine),
    others: Object.entries(options.others ?? {})
      .map(([name, engine]) => ({
        ...{ name, path: `fake/${name}` },
        open: () => Promise.resolve(engine),
      })),
    modelPath: "fake/gradients",
    servedModelName: "gradients",
    ...options.settings,
    outputPath: folder,
    maxQueue: options.maxQueue ?? 8,
    log: options.log ??
      ((line, fields) => lines.push(fields?.stack ? `${line}\n${fields.stack}` : line)),
    ...(options.enhancer ? { enhancer: options.enhancer } : {}),
  }, {
    storage: options.storage?.(local) ?? local,
    ffmpeg: options.ffmpeg ?? await findFfmpeg({ onlyBundled: true }),
    ...(options.tracing ? { tracing: options.tracing } : {}),
  });
  await member.open();
  const { app, services } = member.front!;
  const count = 1 + Object.keys(options.others ?? {}).length;
  await until(() => services.models.all.length === count);
  const { store, queue, inputRoot } = services;
  return {
    ...{ app, engine, store, queue, folder, inputRoot, lines },
    ...talking(app),
    async [Symbol.asyncDispose]() {
      await member.stop(0);
      await member.free();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** Makes an empty database beside another. */
async function newDatabase(url: string): Promise<string> {
  const { default: postgres } = await import("postgres");
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  const name = `test_${crypto.randomUUID().replaceAll("-", "")}`;
  await sql.unsafe(`CREATE DATABASE ${name}`);
  await sql.end();
  return Object.assign(new URL(url), { pathname: `/${name}` }).href;
}

function talking(app: App): Pick<TestService, "get" | "post"> {
  const get = (path: string, init: RequestInit = {}) => Promise.resolve(app.request(path, init));
  return {
    get,
    post: (path, body, init = {}) =>
      get(path, {
        method: "POST",
        body: typeof body === "string" ? body : JSON.stringify(body),
        ...init,
        headers: { "content-type": "application/json", ...init.headers },
      }),
  };
}

/** Opens a pool of one model on cards without a GPU. */
export async function openPool(
  engines: readonly FakeEngine[],
): Promise<{ cards: Scheduler; engine: ScheduledModel }> {
  const plans = engines.map((_, gpu) => ({
    gpu,
    name: `card ${gpu}`,
    memoryBytes: 8e9,
    address: {},
  }));
  const cards = new Scheduler(plans);
  const engine = await cards.open({
    name: "gradients",
    on: cards.all,
    open: ({ id }) => Promise.resolve(engines[id]!),
  });
  await engine.settled;
  return { cards, engine };
}

/** Waits until something holds; fails after 10 s. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const start = performance.now(); !await holds();) {
    if (performance.now() - start > 10_000) throw new Error(`Cannot wait on: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** What is kept of requests that came with files. */
export function keptInputs({ inputRoot }: TestService): string[] {
  try {
    return [...Deno.readDirSync(inputRoot)].map(({ name }) => name);
  } catch (error) {
    // It is made with the first file.
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Whether a body speaks both dialects of the error object. */
export function isErrorBody(body: unknown): boolean {
  if (typeof body !== "object" || body === null) return false;
  const { error, detail } = body as Record<string, unknown>;
  if (typeof error !== "object" || error === null) return false;
  const { message, type, param, code } = error as Record<string, unknown>;
  return typeof message === "string" && message !== "" && typeof type === "string" &&
    (param === null || typeof param === "string") && (code === null || typeof code === "string") &&
    (Array.isArray(detail) ? detail.length > 0 : typeof detail === "string" && detail !== "");
}
