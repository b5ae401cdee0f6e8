/** A front or a worker of a fleet as a process of its own, with an engine that needs no GPU. */

import { type FleetPlace, startMember } from "../../fleet/mod.ts";
import type { S3Settings } from "../../server/storage/s3_settings.ts";
import { FakeEngine } from "../fakes/engine.ts";

/** What a member is started with, as JSON in its first argument. */
export interface MemberOptions extends FleetPlace {
  /** Folder for results that are not uploaded. */
  outputPath: string;
  /** Bucket for results. */
  s3?: S3Settings;
  /** Where a front listens. */
  port?: number;
  /** Keys of clients. */
  apiKeys?: string[];
  /** Most jobs that wait. */
  maxQueue?: number;
  /** Milliseconds of a denoising step. */
  stepMs?: number;
}

if (import.meta.main) {
  const options: MemberOptions = JSON.parse(Deno.args[0]!);
  const { role, databaseUrl, outputPath, s3, port = 0, apiKeys = [], maxQueue = 1000 } = options;
  const server = await startMember({ role, databaseUrl })({
    openEngine: () => Promise.resolve(new FakeEngine({ stepMs: options.stepMs ?? 10 })),
    ...{ outputPath, port, maxQueue, strictPorts: true },
    ...(s3 ? { s3 } : {}),
    apiKeys,
    servedModelName: "gradients",
    modelPath: "fake/gradients",
    log: (line, fields) => {
      if (fields?.status === undefined || Number(fields.status) >= 500) console.log(line);
    },
  });
  Deno.addSignalListener("SIGTERM", async () => {
    await server.close();
    Deno.exit(0);
  });
  await server.ready;
  console.log("ready");
}
