/** The app on a port, from the first request to a clean end. */

import { join } from "node:path";
import { createService } from "./app.ts";
import { InputFolder, TemporaryInputs } from "./inputs/input_folder.ts";
import { JobQueue } from "./jobs/job_queue.ts";
import { openJobStore } from "./jobs/write_behind.ts";
import { listen, type Listener } from "./http/listen.ts";
import { resumeJobs } from "./runners.ts";
import { startSweeping } from "./jobs/retention.ts";
import { FoundModels } from "./models/found_models.ts";
import { absolute, localModel, OpeningModels, openStorage, withLoras } from "./start_parts.ts";
import type { App } from "./services.ts";
import { settingsOf } from "./settings.ts";
import type { RunningServer, StartOnCards } from "./start_options.ts";
import { openTracing } from "./telemetry/tracing.ts";

/** How long answers under way may take to end, in milliseconds. */
const CLOSE_MS = 3000;
/** How far the times of files may lag behind the clock, in milliseconds. */
const CLOCK_MS = 50;

/**
 * The server listens; its model may still be loading.
 *
 * @param bind makes the app answer; on a port of its own by default
 * @throws {Error} when the address cannot be bound or the folder cannot be used
 */
export async function startServer(
  options: StartOnCards,
  bind: (app: App) => Promise<Listener> = (app) =>
    listen(app, { ...options, log: options.log ?? (() => {}) }),
): Promise<RunningServer> {
  const { log = () => {} } = options;
  const settings = settingsOf(options);
  // Paths stay what they are when the working folder is removed.
  const outputPath = absolute(settings.outputPath);
  const resumes = settings.resumeJobs;
  const { store, left } = await openJobStore(outputPath || undefined, { resumes, log });
  const temporary = outputPath === "" && !options.inputSavePath ? new TemporaryInputs() : undefined;
  const inputRoot = temporary?.path ??
    absolute(options.inputSavePath || join(outputPath, "inputs"));
  const models = new OpeningModels(options);
  const { engine, others } = models;
  const found = options.find && new FoundModels({
    find: options.find,
    serve: (source, engine) => localModel(source, engine, settings, log),
    asked: [settings, ...others].flatMap((model) =>
      "name" in model ? [model.name, model.path] : [model.servedModelName, model.modelPath]
    ),
    first: engine,
    log,
  });
  const ready = engine.settled.then(() => {
    if (engine.failure) throw engine.failure;
  });
  ready.catch(() => {});
  const queue = new JobQueue(store, {
    maxQueue: settings.maxQueue,
    resumes,
    ready,
    ...(options.cards ? { places: options.cards } : {}),
    onEnd: (id) => void new InputFolder(inputRoot, id).remove(),
  });
  const storage = openStorage(outputPath, options.s3, log);
  const tracing = await openTracing();
  const { app, services } = createService({
    engine,
    ...(options.cards ? { cards: options.cards } : {}),
    others,
    ...(found ? { found } : {}),
    jobs: { store, queue },
    inputRoot,
    log,
    host: settings.host,
    settings,
    ...(options.enhancer ? { enhancer: options.enhancer } : {}),
    ...(storage ? { storage } : {}),
    ...(tracing ? { tracing } : {}),
  });

  const startedAt = Date.now() - CLOCK_MS;
  let listener: Listener;
  try {
    listener = await bind(app);
  } catch (error) {
    await store.close();
    await temporary?.remove();
    throw error;
  }
  void temporary?.removeDead();
  const opening = new AbortController();
  void models.open(
    opening.signal,
    (loaded) => withLoras(loaded, services.loras, options.loras ?? []),
  );
  // A job that was left may be one of theirs.
  await found?.refresh();
  await resumeJobs(services, left);
  // Uploads elsewhere may be those of servers with other records.
  const isAlone = outputPath !== "" && !options.inputSavePath;
  const stopSweeping = startSweeping(services, isAlone ? { aloneSince: startedAt } : {});

  let closing: Promise<void> | undefined;
  const close = async () => {
    stopSweeping();
    services.pulls.close();
    await queue.close(options.graceMs ?? 10_000);
    services.webhooks?.close();
    await listener.close(CLOSE_MS);
    opening.abort();
    found?.close();
    await models.free().finally(async () => {
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
