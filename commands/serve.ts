/** `denoise serve` and `denoise worker`. */

import { readFile } from "node:fs/promises";
import { BUNDLED_MODEL } from "../models/lora/bundled.ts";
import {
  checkApiKeys,
  isLoopback,
  type Log,
  LORA_FLAGS,
  type ModelSource,
  readS3Settings,
  readSecret,
  serve,
  type ServeOptions,
  SERVER_FLAGS,
} from "../server/mod.ts";
import { type FleetPlace, startMember } from "../fleet/mod.ts";
import { servableModels } from "../hub/servable.ts";
import { asUsage, UsageError } from "./failure.ts";
import { openFile } from "./open_file.ts";
import type { ServeFlags, WorkerFlags } from "./flags.ts";
import { deviceOptions, partsOf, pick } from "./model_options.ts";
import { runUntilStopped, withLog } from "./run_until_stopped.ts";

export function runServe(flags: ServeFlags): Promise<number> {
  return withLog(flags.logFormat, async (log) => {
    for (const note of notes(flags)) log(note, { level: "warning" });
    const fleet = fleetOf(flags);
    const enhancer = await readEnhancerFile(flags.promptEnhancerConfig);
    asUsage(() => checkApiKeys(flags.apiKeys));
    if (flags.webhookSecret !== undefined) asUsage(() => readSecret(flags.webhookSecret!));
    const options = await optionsOf(flags, log);
    const { servedModelName: name, otherModels: others } = options;
    const isFront = fleet?.role === "front";
    const start = () =>
      serve({
        ...pick(flags, SERVER_FLAGS),
        ...options,
        ...(fleet === undefined ? {} : { start: startMember(fleet), isFront }),
        ...(flags.lora === undefined ? {} : { loras: flags.lora }),
        ...(enhancer === undefined ? {} : { promptEnhancerConfig: enhancer }),
      });
    await runUntilStopped(start, {
      log,
      onStart: ({ url }) => {
        if (flags.open) openFile(`${url}/`).catch(({ message }) => log(message));
        log(`Listening on ${url}, ${isFront ? "joining the fleet" : `loading ${name}`}`);
        if (others.length > 0) {
          log(`Loaded when they are asked for: ${others.map(({ name }) => name).join(", ")}`);
        }
      },
      onReady: ({ url }) => {
        const page = flags.playground ? `; draw at ${url}/` : "";
        log(`Ready: ${isFront ? "the fleet" : name} is served on ${url}${page}`);
      },
      onStop: () => log("Stopping; a second signal stops at once"),
    });
    return 0;
  });
}

/** Runs jobs of a fleet until a signal comes, then finishes those that it has, or gives them back. */
export function runWorker(flags: WorkerFlags): Promise<number> {
  return withLog(flags.logFormat, async (log) => {
    const place = fleetOf(flags);
    if (!place) {
      throw new UsageError(
        "Cannot work without a fleet: name its database with --database-url or DENOISE_DATABASE_URL",
      );
    }
    const options = await optionsOf(flags, log);
    const { graceMs, outputPath } = flags;
    const start = () =>
      serve({ ...options, outputPath, graceMs, start: startMember({ ...place, role: "worker" }) });
    const names = [options.servedModelName, ...options.otherModels.map(({ name }) => name)].join(
      ", ",
    );
    await runUntilStopped(start, {
      log,
      onStart: () => log(`Loading ${names}, and joining the fleet`),
      onReady: () => log(`Ready: takes jobs for ${names}`),
      onStop: () => log("Leaving the fleet; a second signal stops at once"),
    });
    return 0;
  });
}

async function optionsOf(flags: ServeFlags | WorkerFlags, log: Log) {
  // In a fleet all members have to know of them at the start.
  const isFleet = flags.databaseUrl !== undefined;
  const isAll = flags.models === "all" && isFleet;
  const there = isAll ? [BUNDLED, ...await servableModels()] : [];
  const [first, ...otherModels] = modelsOf(flags, there);
  const { s3Bucket: bucket, s3Endpoint: endpoint, s3Region: region } = flags;
  const s3 = asUsage(() =>
    readS3Settings({ bucket, endpoint, region }, (name) => Deno.env.get(name))
  );
  return {
    ...pick(flags, LORA_FLAGS),
    ...deviceOptions(flags),
    ...cardOptions(flags),
    parts: partsOf(flags),
    modelPath: first.modelPath,
    servedModelName: first.name,
    otherModels,
    findsModels: !isFleet && flags.models !== "named",
    log,
    ...(s3 === undefined ? {} : { s3 }),
  };
}

const BUNDLED: ModelSource = { name: BUNDLED_MODEL, modelPath: BUNDLED_MODEL };

/** The models to serve, the first one of requests that name none; those of this machine that have no name yet come last. */
export function modelsOf(
  { servedModelName, modelId, modelPath }:
    & Pick<ServeFlags, "servedModelName" | "modelPath">
    & Partial<Pick<ServeFlags, "modelId">>,
  there: readonly ModelSource[] = [],
): [ModelSource, ...ModelSource[]] {
  const paths = modelPath.length > 0 ? modelPath : [BUNDLED_MODEL];
  const [first, ...others] = paths.map(readModel) as [ModelSource, ...ModelSource[]];
  const sources: [ModelSource, ...ModelSource[]] = [
    { ...first, name: servedModelName ?? modelId ?? first.name },
    ...others,
  ];
  for (const { name: id, modelPath: path } of there) {
    const isThere = sources.some(({ name, modelPath }) => name === id || modelPath === path);
    if (!isThere) sources.push({ name: id, modelPath: path });
  }
  const twice = sources.find(({ name }, i) => sources.findIndex((one) => one.name === name) < i);
  if (twice) {
    throw new UsageError(
      `Cannot serve two models as ${twice.name}: name them, as in --model-path small=${twice.modelPath}`,
    );
  }
  return sources;
}

/** `name=path`, with a name that may be a hub id, or a path. */
function readModel(text: string): ModelSource {
  const [, name, path] = /^([\w.-]+(?:\/[\w.-]+)?)=(.+)$/.exec(text) ?? [];
  return name && path ? { name, modelPath: path } : { name: text, modelPath: text };
}

export function cardOptions(
  { numGpus, gpus, pins = {} }: Pick<ServeFlags, "numGpus" | "gpus" | "pins">,
): Pick<ServeOptions, "gpus" | "pins"> {
  if (gpus === undefined) return { gpus: numGpus, pins };
  if (numGpus === 1 || numGpus === gpus.length) return { gpus, pins };
  throw new UsageError(
    `Cannot use ${numGpus} GPUs and GPUs ${gpus.join(", ")}: give --num-gpus or --gpus alone`,
  );
}

export function notes(flags: ServeFlags): string[] {
  const lines: string[] = [];
  if (flags.resumeJobs && flags.outputPath === "") {
    lines.push('Note: --resume-jobs has no effect with --output-path "": no records are kept');
  }
  const idleInFleet = [
    ["--resume-jobs", flags.resumeJobs],
    ["--input-save-path", flags.inputSavePath !== undefined],
  ].filter(([, isGiven]) => isGiven).map(([flag]) => flag);
  if (flags.databaseUrl !== undefined && idleInFleet.length > 0) {
    lines.push(
      `Note: no effect in a fleet: ${idleInFleet.join(", ")}; its database keeps jobs and uploads`,
    );
  }
  if (!isLoopback(flags.host) && flags.apiKeys.length === 0) {
    lines.push(
      `Warning: everybody who reaches ${flags.host} can use this server; give it an --api-key`,
    );
  }
  for (const folder of flags.loraFolders ?? []) {
    if (!isFolder(folder)) {
      lines.push(`Note: --lora-dir ${folder} is no folder; no LoRA is found there`);
    }
  }
  if (flags.open && !flags.playground) {
    lines.push("Note: --open has no effect with --no-playground: there is no page");
  }
  if (flags.modelId !== undefined && modelsOf(flags)[0].modelPath === BUNDLED_MODEL) {
    lines.push("Note: --model-id names the bundled model; it does not choose another");
  }
  return lines;
}

function fleetOf(
  { databaseUrl, gpu = true, lora, outputPath, s3Bucket, modelPath, models }:
    & Pick<ServeFlags, "databaseUrl" | "outputPath" | "s3Bucket" | "modelPath" | "models">
    & Partial<Pick<ServeFlags, "gpu" | "lora">>,
): FleetPlace | undefined {
  const isFront = !gpu;
  if (databaseUrl === undefined) {
    if (!isFront) return undefined;
    throw new UsageError(
      "Cannot serve without a GPU: nobody would run the jobs; name the database of a fleet with " +
        "--database-url",
    );
  }
  if (!/^postgres(?:ql)?:\/\//.test(databaseUrl) || !URL.canParse(databaseUrl)) {
    throw new UsageError(
      "Cannot use --database-url: it is not like postgres://user:password@host/database",
    );
  }
  if (isFront && (modelPath.length > 0 || models !== undefined)) {
    throw new UsageError(
      "Cannot load a model with --no-gpu: give --model-path to the workers (denoise worker)",
    );
  }
  if (lora !== undefined) {
    throw new UsageError(
      "Cannot set --lora in a fleet: POST /v1/set_lora sets LoRAs for all of it, from the folders " +
        "of its workers (--lora-dir)",
    );
  }
  if (outputPath === "" && s3Bucket === undefined) {
    throw new UsageError(
      "Cannot keep the results of a fleet: name a bucket with --s3-bucket, or a folder that all its " +
        "members see with --output-path",
    );
  }
  return { databaseUrl, role: isFront ? "front" : "both" };
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
}

async function readEnhancerFile(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    const isMissing = (cause as { code?: unknown }).code === "ENOENT";
    const reason = isMissing ? "no such file" : (cause as Error).message;
    throw new Error(`Cannot read the prompt enhancer's configuration ${path}: ${reason}`, {
      cause,
    });
  }
}
