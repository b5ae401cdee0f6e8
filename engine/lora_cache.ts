import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { LoraError } from "../models/lora/lora_error.ts";
import type { Lora } from "../models/lora/types.ts";

/** Most bytes of LoRAs in memory where nothing else was said. */
const DEFAULT_LORA_CACHE_BYTES = 2 * 2 ** 30;

/** Where a LoRA comes from, and what replaces the alpha that its file gives. */
interface LoraSource {
  readonly path: string;
  readonly alpha?: number;
}

/** A LoRA in memory; equal keys mean the same contents. */
export interface CachedLora {
  readonly key: string;
  readonly lora: Lora;
}

interface LoraCacheOptions {
  /** Most bytes that are kept; what is in use is kept even beyond. */
  readonly maxBytes?: number;
  /** Finds the absolute file of a path or hub id; throws `Deno.errors.NotFound` and the like. */
  readonly find: (path: string) => Promise<string>;
  /** Reads a file and matches it against the model. */
  readonly read: (path: string, options: { alpha?: number }) => Promise<Lora>;
  /** What changes when a file does; nothing when it is gone. The file system's own stamps by default. */
  readonly stateOf?: (file: string) => Promise<string | undefined>;
}

interface Entry extends CachedLora {
  /** The part of the key that says where it comes from, without the file's state. */
  readonly origin: string;
}

/** LoRAs by file, state of the file, and alpha. Those used longest ago go first. */
export class LoraCache {
  readonly #maxBytes: number;
  readonly #find: LoraCacheOptions["find"];
  readonly #read: LoraCacheOptions["read"];
  readonly #stateOf: (file: string) => Promise<string | undefined>;
  /** Used longest ago first. */
  readonly #entries = new Map<string, Entry>();
  readonly #reading = new Map<string, Promise<Entry>>();
  #pinned: ReadonlySet<string> = new Set();

  constructor({ maxBytes = DEFAULT_LORA_CACHE_BYTES, find, read, ...options }: LoraCacheOptions) {
    this.#maxBytes = maxBytes;
    this.#find = find;
    this.#read = read;
    this.#stateOf = options.stateOf ?? stateOf;
  }

  get bytes(): number {
    let sum = 0;
    for (const { lora } of this.#entries.values()) sum += lora.byteLength;
    return sum;
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /** Gives LoRAs, and reads files that are new or have changed. What is given stays at least until the next call. */
  async load(sources: readonly LoraSource[]): Promise<CachedLora[]> {
    const loaded: Entry[] = [];
    try {
      for (const source of sources) loaded.push(await this.#get(source));
      return loaded;
    } finally {
      for (const entry of loaded) {
        this.#entries.delete(entry.key);
        this.#entries.set(entry.key, entry);
      }
      this.#evict(new Set(loaded.map(({ key }) => key)));
    }
  }

  /** Keeps these, and no others, whatever the bound. */
  pin(keys: Iterable<string>): void {
    this.#pinned = new Set(keys);
  }

  async #get({ path, alpha }: LoraSource): Promise<Entry> {
    const file = await this.#find(path).catch((cause) => this.#lost(path, cause));
    const origin = JSON.stringify([file, alpha]);
    const state = await this.#stateOf(file);
    // What was read of a file that is gone since serves as well.
    const key = state === undefined ? this.#newest(origin) : `${origin} ${state}`;
    if (key === undefined) throw new LoraError(`Cannot read LoRA ${file}: it does not exist`);
    return this.#entries.get(key) ?? await this.#readOnce(key, origin, file, alpha);
  }

  #readOnce(key: string, origin: string, file: string, alpha: number | undefined): Promise<Entry> {
    let reading = this.#reading.get(key);
    if (reading === undefined) {
      reading = this.#read(file, alpha === undefined ? {} : { alpha })
        .then((lora) => {
          const entry = { key, origin, lora };
          // Others find it here from the moment when they no longer find it among those being read.
          this.#entries.set(key, entry);
          return entry;
        })
        .finally(() => this.#reading.delete(key));
      this.#reading.set(key, reading);
    }
    return reading;
  }

  /** A file that is gone is still known by its path. */
  #lost(path: string, cause: unknown): string {
    for (const { origin } of this.#entries.values()) {
      if (JSON.parse(origin)[0] === path) return path;
    }
    throw new LoraError(cause instanceof Error ? cause.message : String(cause), [], { cause });
  }

  #newest(origin: string): string | undefined {
    return [...this.#entries.values()].findLast((entry) => entry.origin === origin)?.key;
  }

  #evict(inUse: ReadonlySet<string>): void {
    let { bytes } = this;
    for (const [key, { lora }] of this.#entries) {
      if (bytes <= this.#maxBytes) return;
      if (inUse.has(key) || this.#pinned.has(key)) continue;
      this.#entries.delete(key);
      bytes -= lora.byteLength;
    }
  }
}

/** What changes when a file is replaced, and when PEFT's settings beside it are; nothing when the file is gone. */
async function stateOf(file: string): Promise<string | undefined> {
  const own = await stamp(file);
  return own && `${own} ${await stamp(join(dirname(file), "adapter_config.json")) ?? ""}`;
}

async function stamp(path: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch {
    return undefined;
  }
}
