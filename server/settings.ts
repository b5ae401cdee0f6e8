/** What a server can be told: tables from which the flags of `serve`, their types and their defaults follow. */

import {
  address,
  defaultsOf,
  duration,
  flag,
  type FlagValues,
  integer,
  memory,
  off,
  onOff,
  texts,
} from "../generation/flag.ts";
import { MERGE_MODES } from "../generation/lora_words.ts";
import { isLoopback, isOrigin } from "./http/access.ts";
import type { FormLimits } from "./inputs/multipart.ts";

/** Flags of a server: where it listens, what it keeps, what clients may do. */
export const SERVER_FLAGS = {
  publicUrl: flag("url", "address at which clients reach the server; makes links absolute", {
    read: address,
  }),
  host: flag("address", "address to bind", { default: "127.0.0.1" }),
  port: flag("port", "port to bind, 0 for any free port", {
    read: integer(0, 65535),
    default: 30000,
  }),
  strictPorts: onOff("fail if the port is in use, instead of taking a free one"),
  outputPath: flag("folder", 'folder for results, "" to keep none', { default: "outputs" }),
  inputSavePath: flag(
    "folder",
    "folder for uploads, until their jobs end (default: inputs, beside the results)",
  ),
  retainMs: flag(
    "duration",
    "how long the server keeps results, such as 12h or 7d; 0 for ever (default: for ever on a loopback address, else 7d)",
    { read: duration, flag: "--retain" },
  ),
  retainBytes: flag(
    "memory",
    "most disk space for results, such as 50G; the oldest are removed first (default: no bound)",
    { read: memory, flag: "--retain-size" },
  ),
  keepsInputs: off("do not keep the images and videos that requests bring with their results", {
    flag: "--no-keep-inputs",
  }),
  resumeJobs: onOff("retry the jobs that a killed server left unfinished"),
  allowPrivateUrls: onOff("also fetch images from private networks"),
  apiKeys: flag("key", "key that clients must send; may be repeated", {
    read: texts,
    flag: "--api-key",
    default: [],
    shown: "none",
  }),
  maxQueue: flag("jobs", "maximum number of waiting requests; one client may have half", {
    read: integer(0),
    default: 128,
  }),
  corsOrigins: flag("origin", "origin whose pages may send requests, or *; may be repeated", {
    read: origins,
    flag: "--cors-origin",
    default: [],
    shown: "this machine",
  }),
  allowedHosts: flag("name", "host name that clients may use; may be repeated", {
    read: hosts,
    flag: "--allowed-host",
    default: [],
    shown: "the names of the address",
  }),
  defaultSeed: flag("seed", "seed for requests without one (default: a new seed)", {
    read: integer(0),
  }),
  strictFields: onOff("refuse requests with fields that have no effect"),
  waitsForModels: off("answer 503 while a further model loads, instead of waiting for it", {
    flag: "--no-wait",
  }),
  webhookSecret: flag("secret", "key that signs webhooks: whsec_ and 24 to 64 bytes in base64"),
  playground: off("do not serve the playground at /"),
  pulls: off("do not let clients fetch models from the hub, or delete them", { flag: "--no-pull" }),
  enableMetrics: onOff("serve /metrics for Prometheus"),
  styles: flag("path", "styles of Stable Diffusion WebUI, a styles.csv, for /sdapi/v1"),
  enableSdapi: off("do not serve the routes of Stable Diffusion WebUI, /sdapi/v1", {
    flag: "--no-sdapi",
  }),
};

/** Flags of a server or a worker: its LoRAs. */
export const LORA_FLAGS = {
  loraFolders: flag(
    "folder",
    "folder of LoRAs that clients may use; may be repeated (default: the model's folder and the hub cache)",
    { read: texts, flag: "--lora-dir" },
  ),
  allowHubLoras: onOff("let clients fetch LoRAs from the hub; the server sends no token"),
  loraCacheBytes: flag("memory", "memory for cached LoRAs (default: 2G)", {
    read: memory,
    flag: "--lora-cache-size",
  }),
  loraMergeMode: flag("mode", "default way to apply LoRAs", {
    choices: MERGE_MODES,
    default: "auto",
  }),
};

/** Settings of a server: what its flags say, and what no flag says. */
export interface ServerSettings
  extends FlagValues<typeof SERVER_FLAGS>, FlagValues<typeof LORA_FLAGS> {
  /** How long results are kept, in milliseconds; 0 for ever. */
  retainMs: number;
  /** Name, folder, file or hub id of the first model. */
  modelPath: string;
  /** The model's public name. */
  servedModelName: string;
  /** Largest JSON body in bytes. */
  maxBodyBytes: number;
  /** Memory that the bodies of all requests may take together, in bytes. */
  maxBodyMemory: number;
  /** How much a form may hold. */
  formLimits: FormLimits;
  /** Number of GPUs that records name. */
  numGpus: number;
  /** Folders whose LoRAs clients may name. */
  loraFolders: readonly string[];
  /** Files of LoRAs by names that clients may give instead of their paths. */
  namedLoras: Readonly<Record<string, string>>;
}

/** The settings of a server that was told nothing. */
export const DEFAULT_SETTINGS: Readonly<ServerSettings> = {
  ...defaultsOf(SERVER_FLAGS),
  ...defaultsOf(LORA_FLAGS),
  modelPath: "bundled",
  servedModelName: "bundled",
  maxBodyBytes: 32 * 2 ** 20,
  maxBodyMemory: 64 * 2 ** 20,
  formLimits: {
    maxFileBytes: 256 * 2 ** 20,
    maxFiles: 16,
    maxFieldBytes: 28 * 2 ** 20,
    maxBytes: 512 * 2 ** 20,
  },
  numGpus: 1,
  loraFolders: [],
  namedLoras: {},
  retainMs: 0,
};

/** How long a server for others keeps results, in milliseconds. */
export const SHARED_RETAIN_MS = duration("7d");

/** Settings with the defaults of what is not given; who draws at home loses nothing. */
export function settingsOf(given: Partial<ServerSettings>): ServerSettings {
  const { host = DEFAULT_SETTINGS.host } = given;
  const retainMs = given.retainMs ?? (isLoopback(host) ? 0 : SHARED_RETAIN_MS);
  return { ...DEFAULT_SETTINGS, ...given, retainMs };
}

/** Collects origins of pages, such as `https://app.example` or `app://obsidian.md`, or `*` for any. */
export function origins(text: string, before: readonly string[] = []): readonly string[] {
  const one = text.trim();
  if (one === "*" || isOrigin(one)) return [...before, one];
  throw new RangeError("It must be an origin such as https://app.example, or *.");
}

/** Collects names of hosts, such as `images.example.org` or `[::1]`, or `*` for any. */
export function hosts(text: string, before: readonly string[] = []): readonly string[] {
  const one = text.trim();
  if (/^(?:\*|\[[\da-f:.]+\]|[\w.-]+)$/i.test(one)) return [...before, one];
  throw new RangeError(
    "It must be a name without scheme and port, such as images.example.org, or *.",
  );
}
