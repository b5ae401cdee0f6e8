/** `denoise worker`. */

import { startMember } from "../fleet/mod.ts";
import { type Log, type LogFormat, type ModelParts, serve } from "../server/mod.ts";
import { hubCacheFolder } from "../hub/cache.ts";
import { listCachedModels } from "../hub/cached_models.ts";
import { type DeviceFlags, deviceOptions } from "./device_flags.ts";
import { UsageError } from "./failure.ts";
import { partsOf } from "./part_flags.ts";
import { cardOptions, fleetOf, modelsOf, readBucket, type ServeFlags } from "./serve.ts";
import { runUntilStopped } from "./run_until_stopped.ts";
import { withLog } from "./with_log.ts";

/** Flags of `worker`, read and checked; those of `serve` mean the same. */
export interface WorkerFlags extends
  DeviceFlags,
  ModelParts,
  Pick<
    ServeFlags,
    | "databaseUrl"
    | "modelPath"
    | "models"
    | "servedModelName"
    | "outputPath"
    | "s3Bucket"
    | "s3Endpoint"
    | "s3Region"
    | "loraDir"
    | "allowHubLoras"
    | "loraCacheSize"
    | "keepAlive"
    | "numGpus"
    | "gpus"
    | "pin"
  > {
  /** How long jobs may go on after a signal, in milliseconds. */
  drain: number;
  /** How lines of the log are written. */
  logFormat: LogFormat;
}

/**
 * Runs jobs until a signal comes, then finishes those that it has, or gives them back.
 *
 * @throws {UsageError} without a database
 */
export function runWorker(flags: WorkerFlags): Promise<number> {
  return withLog(flags.logFormat, (log) => workUntilStopped(flags, log));
}

async function workUntilStopped(flags: WorkerFlags, log: Log): Promise<number> {
  const place = fleetOf(flags);
  if (!place) {
    throw new UsageError(
      "Cannot work without a fleet: name its database with --database-url or DENOISE_DATABASE_URL",
    );
  }
  const s3 = readBucket(flags);
  const cached = flags.models === "all" ? await listCachedModels(hubCacheFolder()) : [];
  const [first, ...others] = modelsOf(flags, cached.map(({ id }) => id));
  const start = () =>
    serve({
      modelPath: first.modelPath,
      servedModelName: first.name,
      otherModels: others,
      start: startMember({ ...place, role: "worker" }),
      outputPath: flags.outputPath,
      graceMs: flags.drain,
      ...deviceOptions(flags),
      ...cardOptions(flags),
      parts: partsOf(flags),
      log,
      ...(s3 === undefined ? {} : { s3 }),
      ...(flags.loraCacheSize === undefined ? {} : { loraCacheBytes: flags.loraCacheSize }),
      ...(flags.keepAlive === undefined ? {} : { keepAliveMs: flags.keepAlive * 1000 }),
      settings: {
        allowHubLoras: flags.allowHubLoras === true,
        ...(flags.loraDir.length === 0 ? {} : { loraFolders: flags.loraDir }),
      },
    });
  const names = [first, ...others].map(({ name }) => name).join(", ");
  await runUntilStopped(start, {
    log,
    onStart: () => log(`Loading ${names}, and joining the fleet`),
    onReady: () => log(`Ready: takes jobs for ${names}`),
    onStop: () => log("Leaving the fleet; a second signal stops at once"),
  });
  return 0;
}
