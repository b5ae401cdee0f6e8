/** What a server can be told. */

import type { MergeMode } from "../generation/lora_words.ts";
import type { FormLimits } from "./inputs/multipart.ts";

/** Settings of a server that outlast its requests. */
export interface ServerSettings {
  /** Where the model came from, as given by whoever started the server. */
  modelPath: string;
  /** The model's public name. */
  servedModelName: string;
  /** Where clients reach this server, without a slash at the end; links are relative when it is left out. */
  publicUrl?: string;
  /** Keys that `Authorization: Bearer` may bring; no key is asked for when there is none. */
  apiKeys: readonly string[];
  /** Origins whose pages may call, or `*`; pages of this machine always may. */
  corsOrigins: readonly string[];
  /** Seed of a request that names none; a new one is drawn for each where this is left out. */
  defaultSeed?: number;
  /** Names by which clients may call the server, besides those of its address; `*` for any. */
  allowedHosts: readonly string[];
  /** Whether a field without effect is an error. */
  strictFields: boolean;
  /** Requests wait for a model that still loads behind the first one; else they are answered with 503. */
  waitsForModels: boolean;
  /** Largest JSON body in bytes. */
  maxBodyBytes: number;
  /** Memory that the bodies of all requests may take together, in bytes. */
  maxBodyMemory: number;
  /** How much a form may hold. */
  formLimits: FormLimits;
  /** Whether addresses of private networks may be fetched for clients. */
  allowPrivateUrls: boolean;
  /** Signs webhooks, as the standard writes secrets; clients may ask for none where it is left out. */
  webhookSecret?: string;
  /** How long results are kept after their end, in milliseconds; 0 for ever. */
  retainMs: number;
  /** Whether there is a page to draw on at `/`. */
  playground: boolean;
  /** Whether `/metrics` answers. */
  enableMetrics: boolean;
  /** Whether the routes of Stable Diffusion WebUI answer. */
  enableSdapi: boolean;
  /** Number of GPUs that records name. */
  numGpus: number;
  /** Folders whose LoRAs clients may name. */
  loraFolders: readonly string[];
  /** Files of LoRAs by names that clients may give in place of their paths. */
  namedLoras: Readonly<Record<string, string>>;
  /** Whether LoRAs are fetched from a hub because a client names them. */
  allowHubLoras: boolean;
  /** How LoRAs are brought in where a request does not say. */
  loraMergeMode: MergeMode;
}

/** What holds where nothing else was said. */
export const DEFAULT_SETTINGS: Readonly<ServerSettings> = {
  modelPath: "bundled",
  servedModelName: "bundled",
  apiKeys: [],
  corsOrigins: [],
  allowedHosts: [],
  strictFields: false,
  waitsForModels: true,
  maxBodyBytes: 32 * 2 ** 20,
  maxBodyMemory: 64 * 2 ** 20,
  formLimits: {
    maxFileBytes: 256 * 2 ** 20,
    maxFiles: 16,
    maxFieldBytes: 28 * 2 ** 20,
    maxBytes: 512 * 2 ** 20,
  },
  allowPrivateUrls: false,
  retainMs: 7 * 24 * 60 * 60 * 1000,
  playground: true,
  enableMetrics: false,
  enableSdapi: true,
  numGpus: 1,
  loraFolders: [],
  namedLoras: {},
  allowHubLoras: false,
  loraMergeMode: "auto",
};

/** Most jobs that wait where nothing else was said. */
export const DEFAULT_MAX_QUEUE = 128;
