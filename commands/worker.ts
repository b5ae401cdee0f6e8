/** `denoise worker`. */

import { startMember } from "../fleet/mod.ts";
import { type Log, LORA_FLAGS, serve } from "../server/mod.ts";
import { hubCacheFolder, listCachedModels } from "../hub/cache.ts";
import { UsageError } from "./failure.ts";
import type { WorkerFlags } from "./flags.ts";
import { deviceOptions, partsOf, pick } from "./model_options.ts";
import { cardOptions, fleetOf, modelsOf, readBucket } from "./serve.ts";
import { runUntilStopped, withLog } from "./run_until_stopped.ts";

/** Runs jobs until a signal comes, then finishes those that it has, or gives them back. */
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
      graceMs: flags.graceMs,
      ...deviceOptions(flags),
      ...cardOptions(flags),
      parts: partsOf(flags),
      log,
      ...(s3 === undefined ? {} : { s3 }),
      ...pick(flags, LORA_FLAGS),
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
