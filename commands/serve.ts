/** `denoise serve`. */

import { readFile } from "node:fs/promises";
import { BUNDLED_MODEL, type MergeMode } from "../generation/mod.ts";
import {
  checkApiKeys,
  isLoopback,
  type Log,
  type LogFormat,
  type ModelParts,
  type ModelSource,
  readS3Settings,
  readSecret,
  type S3Settings,
  serve,
  type ServeOptions,
} from "../server/mod.ts";
import { type FleetPlace, startMember } from "../fleet/mod.ts";
import { hubCacheFolder } from "../hub/cache.ts";
import { listCachedModels } from "../hub/cached_models.ts";
import { type DeviceFlags, deviceOptions } from "./device_flags.ts";
import { asUsage, UsageError } from "./failure.ts";
import type { LoraFlag } from "./flags.ts";
import { partsOf } from "./part_flags.ts";
import { runUntilStopped } from "./run_until_stopped.ts";
import { withLog } from "./with_log.ts";

/** Flags of `serve`, read and checked. */
export interface ServeFlags extends DeviceFlags, ModelParts {
  /** Folders, files or hub ids of models, or `name=path`; the bundled model when there is none. */
  modelPath: string[];
  /** `all`: the bundled model and those in the cache, too. */
  models?: string;
  /** The first model's public name. */
  servedModelName?: string;
  /** The registered configuration; names the model where `servedModelName` does not. */
  modelId?: string;
  /** Where clients reach the server. */
  publicUrl?: string;
  /** Seed of requests that name none. */
  defaultSeed?: number;
  /** Address to bind. */
  host: string;
  /** Port to bind. */
  port: number;
  /** Whether a port in use is an error. */
  strictPorts?: boolean;
  /** Folder for results, `""` for none. */
  outputPath: string;
  /** Folder for uploads. */
  inputSavePath?: string;
  /** How long results are kept, in milliseconds; 0 for ever. */
  retain: number;
  /** Bucket for results. */
  s3Bucket?: string;
  /** Address of the store that has the bucket. */
  s3Endpoint?: string;
  /** Region of the bucket. */
  s3Region?: string;
  /** Database of a fleet, whose workers run the jobs. */
  databaseUrl?: string;
  /** Whether this server runs jobs itself; true when left out. */
  gpu?: boolean;
  /** Whether jobs that a server left unfinished are run again. */
  resumeJobs?: boolean;
  /** Whether clients may name addresses of private networks. */
  allowPrivateUrls?: boolean;
  /** Keys that clients may bring. */
  apiKey: string[];
  /** Most jobs that wait. */
  maxQueue: number;
  /** Origins whose pages may call. */
  corsOrigin: string[];
  /** Names by which clients may call. */
  allowedHost: string[];
  /** Whether a field without effect is an error. */
  strictFields?: boolean;
  /** Wait for models that still load. */
  wait?: boolean;
  /** Signs webhooks. */
  webhookSecret?: string;
  /** Whether there is a page to draw on at `/`. */
  playground?: boolean;
  /** Whether `/metrics` answers. */
  enableMetrics?: boolean;
  /** Whether the routes of Stable Diffusion WebUI answer; true when left out. */
  sdapi?: boolean;
  /** How lines of the log are written. */
  logFormat: LogFormat;
  /** LoRAs to set at the start. */
  lora?: LoraFlag[];
  /** Folders whose LoRAs clients may name; the default ones when there is none. */
  loraDir: string[];
  /** Whether clients may name LoRAs of the hub. */
  allowHubLoras?: boolean;
  /** Most bytes of LoRAs kept in memory. */
  loraCacheSize?: number;
  /** How LoRAs are brought in where nobody says. */
  loraMergeMode: MergeMode;
  /** Path of the prompt enhancer's configuration. */
  promptEnhancerConfig?: string;
  /** Seconds after which an idle model is unloaded. */
  keepAlive?: number;
  /** How many GPUs share the work. */
  numGpus: number;
  /** Which GPUs. */
  gpus?: number[];
  /** GPUs of models by name. */
  pin?: Record<string, number[]>;
}

/** Serves until a signal comes. */
export function runServe(flags: ServeFlags): Promise<number> {
  return withLog(flags.logFormat, (log) => serveUntilStopped(flags, log));
}

async function serveUntilStopped(flags: ServeFlags, log: Log): Promise<number> {
  for (const note of notes(flags)) log(note, { level: "warning" });
  const fleet = fleetOf(flags);
  const enhancer = await readEnhancerFile(flags.promptEnhancerConfig);
  const s3 = readBucket(flags);
  const cached = flags.models === "all" ? await listCachedModels(hubCacheFolder()) : [];
  const [first, ...others] = modelsOf(flags, cached.map(({ id }) => id));
  const { name } = first;
  const isFront = fleet?.role === "front";
  const start = () =>
    serve({
      modelPath: first.modelPath,
      servedModelName: name,
      otherModels: others,
      host: flags.host,
      port: flags.port,
      strictPorts: flags.strictPorts === true,
      outputPath: flags.outputPath,
      ...(fleet === undefined ? {} : { start: startMember(fleet), isFront }),
      resumeJobs: flags.resumeJobs === true,
      maxQueue: flags.maxQueue,
      ...deviceOptions(flags),
      parts: partsOf(flags),
      log,
      ...cardOptions(flags),
      ...(flags.inputSavePath === undefined ? {} : { inputSavePath: flags.inputSavePath }),
      ...(s3 === undefined ? {} : { s3 }),
      ...(flags.lora === undefined ? {} : { loras: flags.lora }),
      ...(flags.loraCacheSize === undefined ? {} : { loraCacheBytes: flags.loraCacheSize }),
      ...(flags.keepAlive === undefined ? {} : { keepAliveMs: flags.keepAlive * 1000 }),
      ...(enhancer === undefined ? {} : { promptEnhancerConfig: enhancer }),
      settings: {
        apiKeys: readApiKeys(flags),
        corsOrigins: flags.corsOrigin,
        allowedHosts: flags.allowedHost,
        strictFields: flags.strictFields === true,
        waitsForModels: flags.wait !== false,
        retainMs: flags.retain,
        ...(flags.webhookSecret === undefined ? {} : { webhookSecret: readWebhookSecret(flags) }),
        playground: flags.playground !== false,
        enableMetrics: flags.enableMetrics === true,
        enableSdapi: flags.sdapi !== false,
        allowPrivateUrls: flags.allowPrivateUrls === true,
        loraMergeMode: flags.loraMergeMode,
        ...(flags.publicUrl === undefined ? {} : { publicUrl: flags.publicUrl }),
        ...(flags.defaultSeed === undefined ? {} : { defaultSeed: flags.defaultSeed }),
        allowHubLoras: flags.allowHubLoras === true,
        ...(flags.loraDir.length === 0 ? {} : { loraFolders: flags.loraDir }),
      },
    });
  await runUntilStopped(start, {
    log,
    onStart: ({ url }) => {
      log(`Listening on ${url}, ${isFront ? "joining the fleet" : `loading ${name}`}`);
      if (others.length > 0) {
        log(`Loaded when they are asked for: ${others.map(({ name }) => name).join(", ")}`);
      }
    },
    onReady: ({ url }) => log(`Ready: ${isFront ? "the fleet" : name} is served on ${url}`),
    onStop: () => log("Stopping; a second signal stops at once"),
  });
  return 0;
}

/**
 * The models to serve, the first one of requests that name none.
 *
 * @param cached ids of the models in the cache, where they are served, too
 * @returns with names of their own; the first one's is what it was told, else what chooses its configuration
 * @throws {UsageError} when two have one name
 */
export function modelsOf(
  { servedModelName, modelId, modelPath, models }: Pick<
    ServeFlags,
    "servedModelName" | "modelId" | "modelPath" | "models"
  >,
  cached: readonly string[] = [],
): [ModelSource, ...ModelSource[]] {
  const paths = modelPath.length > 0 ? modelPath : [BUNDLED_MODEL];
  const [first, ...others] = paths.map(readModel) as [ModelSource, ...ModelSource[]];
  const sources: [ModelSource, ...ModelSource[]] = [
    { ...first, name: servedModelName ?? modelId ?? first.name },
    ...others,
  ];
  for (const id of models === "all" ? [BUNDLED_MODEL, ...cached] : []) {
    const isThere = sources.some(({ name, modelPath }) => name === id || modelPath === id);
    if (!isThere) sources.push({ name: id, modelPath: id });
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

/**
 * How many GPUs share the work, or which, and what may be on them.
 *
 * @throws {UsageError} when both are said, and differ
 */
export function cardOptions(
  { numGpus, gpus, pin }: Pick<ServeFlags, "numGpus" | "gpus" | "pin">,
): Pick<ServeOptions, "gpus" | "pins"> {
  const pins = pin === undefined ? {} : { pins: pin };
  if (gpus === undefined) return { gpus: numGpus, ...pins };
  if (numGpus === 1 || numGpus === gpus.length) return { gpus, ...pins };
  throw new UsageError(
    `Cannot use ${numGpus} GPUs and GPUs ${gpus.join(", ")}: give --num-gpus or --gpus alone`,
  );
}

/** What a user should know before the server starts. */
export function notes(flags: ServeFlags): string[] {
  const lines: string[] = [];
  if (flags.resumeJobs === true && flags.outputPath === "") {
    lines.push('Note: --resume-jobs has no effect with --output-path "": no records are kept');
  }
  const idleInFleet = [
    ["--resume-jobs", flags.resumeJobs === true],
    ["--input-save-path", flags.inputSavePath !== undefined],
  ].filter(([, isGiven]) => isGiven).map(([flag]) => flag);
  if (flags.databaseUrl !== undefined && idleInFleet.length > 0) {
    lines.push(
      `Note: no effect in a fleet: ${idleInFleet.join(", ")}; its database keeps jobs and uploads`,
    );
  }
  if (!isLoopback(flags.host) && flags.apiKey.length === 0) {
    lines.push(
      `Warning: everybody who reaches ${flags.host} can use this server; give it an --api-key`,
    );
  }
  for (const folder of flags.loraDir) {
    if (!isFolder(folder)) {
      lines.push(`Note: --lora-dir ${folder} is no folder; no LoRA is found there`);
    }
  }
  if (flags.modelId !== undefined && modelsOf(flags)[0].modelPath === BUNDLED_MODEL) {
    lines.push("Note: --model-id names the bundled model; it does not choose another");
  }
  return lines;
}

/**
 * Where a server stands among others.
 *
 * @returns nothing for a server that has its own jobs
 * @throws {UsageError} for flags that contradict each other
 */
export function fleetOf(
  { databaseUrl, gpu, lora, outputPath, s3Bucket, modelPath, models }: Pick<
    ServeFlags,
    "databaseUrl" | "gpu" | "lora" | "outputPath" | "s3Bucket" | "modelPath" | "models"
  >,
): FleetPlace | undefined {
  const isFront = gpu === false;
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

/**
 * The bucket of results.
 *
 * @throws {UsageError} for one that cannot be used
 */
export function readBucket(
  { s3Bucket: bucket, s3Endpoint: endpoint, s3Region: region }: Pick<
    ServeFlags,
    "s3Bucket" | "s3Endpoint" | "s3Region"
  >,
): S3Settings | undefined {
  return asUsage(() => readS3Settings({ bucket, endpoint, region }, (name) => Deno.env.get(name)));
}

function readApiKeys({ apiKey }: ServeFlags): string[] {
  asUsage(() => checkApiKeys(apiKey));
  return apiKey;
}

function readWebhookSecret({ webhookSecret }: ServeFlags): string {
  asUsage(() => readSecret(webhookSecret!));
  return webhookSecret!;
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
