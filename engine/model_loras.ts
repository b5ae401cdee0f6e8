import { basename, dirname, fileStamp, join, NotFoundError } from "../platform/mod.ts";
import { obtainLora } from "../hub/lora_file.ts";
import { readLora } from "../models/lora/read_lora.ts";
import {
  type AdaptableComponent,
  type AppliedLora,
  isTextEncoder,
  type Lora,
  type LoraComponent,
} from "../models/lora/types.ts";
import { LoraError } from "../models/lora/lora_error.ts";
import { resolveModes } from "../models/lora/resolve_mode.ts";
import type { EngineOptions } from "./options.ts";
import type { LoraMessage } from "./protocol.ts";
import type { LoraReport, LoraTarget, LoraUse } from "./types.ts";

/** Most keys of a LoRA that a message names. */
const MAX_NAMED = 3;

type ModelLorasOptions = Pick<EngineOptions, "loraCacheBytes" | "namedLoras" | "onNote">;

/** The LoRAs of one model: found, read, matched, kept, and told to the worker that applies them. */
export class ModelLoras {
  /** Components of the model; empty until it is loaded, and where LoRAs cannot be used. */
  components: readonly AdaptableComponent[] = [];
  readonly #cache: LoraCache;
  readonly #onNote: ModelLorasOptions["onNote"];
  /** Keys of the LoRAs that a worker has. */
  readonly #held = new WeakMap<object, Set<string>>();

  constructor({ loraCacheBytes, namedLoras = {}, onNote }: ModelLorasOptions = {}) {
    this.#onNote = onNote;
    this.#cache = new LoraCache({
      ...(loraCacheBytes === undefined ? {} : { maxBytes: loraCacheBytes }),
      find: (path) => this.#findFile(path, new Map(Object.entries(namedLoras))),
      read: (path, options) => this.#readFile(path, options),
    });
  }

  /** Reads LoRAs that are not in memory, and decides what they change and how. */
  async resolve(uses: readonly LoraUse[], isStanding: boolean): Promise<ResolvedLoras> {
    checkLoraUses(uses, this.components);
    return resolveLoraUses(uses, await this.#cache.load(uses), this.components, isStanding);
  }

  /** Keeps these in memory, whatever the bound, until the next call. */
  pin(applied: readonly AppliedLora[]): void {
    this.#cache.pin(applied.map(({ key }) => key));
  }

  /** What a worker has to know of LoRAs. Call it only for a message that is sent: it is taken for told. */
  messageFor(worker: object, applied: readonly AppliedLora[]): LoraMessage {
    const held = this.#held.get(worker) ?? new Set();
    this.#held.set(worker, held);
    const needed = new Map(applied.map(({ key, lora }) => [key, lora]));
    const forgotten = [...held].filter((key) => !needed.has(key) && !this.#cache.has(key));
    for (const key of forgotten) held.delete(key);
    const added = new Map([...needed].filter(([key]) => !held.has(key)));
    for (const key of added.keys()) held.add(key);
    return { uses: applied.map(({ lora: _, ...use }) => use), added, forgotten };
  }

  async #findFile(path: string, named: ReadonlyMap<string, string>): Promise<string> {
    const note = () => this.#onNote?.(`Fetching LoRA ${path} from the hub`);
    try {
      return await obtainLora(named.get(path) ?? path, {}, note);
    } catch (error) {
      if (!(error instanceof NotFoundError) || named.size === 0) throw error;
      const names = [...named.keys()].join(", ");
      throw new NotFoundError(`${error.message}; this model comes with ${names}`);
    }
  }

  async #readFile(path: string, options: { alpha?: number }): Promise<Lora> {
    const start = performance.now();
    const lora = await readLora(path, this.components, options);
    const { dialect, changes, unmatchedKeys, words = [], byteLength } = lora;
    const count = unmatchedKeys.length;
    const named = unmatchedKeys.slice(0, MAX_NAMED).join(", ") + (count > MAX_NAMED ? ", …" : "");
    const left = count > 0 ? `; ${count} keys fit no layer: ${named}` : "";
    const brought = words.length > 0
      ? `; embeddings for prompts: ${words.map(({ name }) => name).join(", ")}`
      : "";
    this.#onNote?.(
      `Read LoRA ${basename(path)} (${dialect}, ${(byteLength / 1e6).toFixed(1)} MB) for ` +
        `${changes.length} layers in ${Math.round(performance.now() - start)} ms${brought}${left}`,
    );
    return lora;
  }
}

/** Far beyond what any LoRA stands; more would only overflow. */
const MAX_STRENGTH = 100;

/** What all text encoders of a model are called. */
const TEXT = "text_encoder";

/** What a pipeline is given, in the order of the uses, and what is said of it. */
interface ResolvedLoras {
  readonly applied: readonly AppliedLora[];
  readonly reports: readonly LoraReport[];
}

export function loraTargets(components: readonly AdaptableComponent[]): LoraTarget[] {
  return components.flatMap(({ target }) => isTextEncoder(target) ? [] : target);
}

/** Checks what uses say; nothing has to be read for that. */
function checkLoraUses(
  uses: readonly LoraUse[],
  components: readonly AdaptableComponent[],
): void {
  if (!Array.isArray(uses) || !uses.every((use) => typeof use === "object" && use)) {
    throw new TypeError(
      `Cannot use ${
        JSON.stringify(uses)
      } as LoRAs: give a list such as [{ "path": "style.safetensors" }]`,
    );
  }
  for (const { path, target = "all", strength = 1, alpha } of uses as readonly LoraUse[]) {
    if (typeof path !== "string") {
      throw new TypeError(
        `Cannot use ${JSON.stringify(path)} as the path of a LoRA: give text`,
      );
    }
    if (components.length === 0) throw new LoraError("Lora is not enabled");
    if (target !== "all" && !components.some((component) => component.target === target)) {
      throw new LoraError(
        `Cannot use target '${target}': this model has ${loraTargets(components).join(", ")}; ` +
          "name one of those, or 'all'",
      );
    }
    if (!(Math.abs(strength) <= MAX_STRENGTH)) {
      throw new LoraError(
        `Cannot use strength ${strength}: it must be from -${MAX_STRENGTH} to ${MAX_STRENGTH}`,
      );
    }
    if (alpha !== undefined && !(alpha > 0 && alpha < Infinity)) {
      throw new LoraError(`Cannot use alpha ${alpha}: it must be a positive number`);
    }
  }
}

function resolveLoraUses(
  uses: readonly LoraUse[],
  cached: readonly CachedLora[],
  components: readonly AdaptableComponent[],
  isStanding: boolean,
): ResolvedLoras {
  const meant = uses.map(({ target = "all", mode = "auto" }, index) => ({
    ...cached[index]!,
    targets: components.map((component) => component.target).filter((own) =>
      target === "all" || own === target || target === TEXT && isTextEncoder(own)
    ),
    mode,
  }));
  const modes = resolveModes(meant, components, isStanding);
  const reports: LoraReport[] = [];
  const applied = meant.map(({ key, lora, targets }, index): AppliedLora => {
    const { path, strength = 1 } = uses[index]!;
    const { mode, note } = modes[index]!;
    // Callers know of one text encoder.
    const names = new Set<LoraReport["target"]>(
      targets.map((name) => isTextEncoder(name) ? TEXT : name),
    );
    const changed = [...names].flatMap((target) => {
      const changes = lora.changes.filter(({ target: own }) =>
        own === target || target === TEXT && isTextEncoder(own) && targets.includes(own)
      );
      const layers = [...new Set(changes.map(({ module }) => module))];
      return layers.length === 0 ? [] : [{ target, layers }];
    });
    if (changed.length === 0) throw unmatched(path, targets, lora.unmatchedKeys);
    for (const { target, layers } of changed) {
      reports.push({
        index,
        path,
        target,
        strength,
        layers,
        mode: mode === "merge" ? "merged" : "dynamic",
        ...(note === undefined ? {} : { note }),
        dialect: lora.dialect,
        unmatchedKeys: lora.unmatchedKeys,
      });
    }
    return { key, lora, strength, targets, mode };
  });
  return { applied, reports };
}

function unmatched(
  path: string,
  targets: readonly LoraComponent[],
  keys: readonly string[],
): LoraError {
  const named = keys.slice(0, MAX_NAMED).join(", ");
  const example = named && `; it has ${named}${keys.length > MAX_NAMED ? ", …" : ""}`;
  return new LoraError(
    `Cannot use LoRA ${path}: no key of it fits ${targets.join(", ")}${example}`,
    keys,
  );
}

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
  /** Finds the absolute file of a path or hub id; throws `NotFoundError` and the like. */
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
  const own = await fileStamp(file);
  return own && `${own} ${await fileStamp(join(dirname(file), "adapter_config.json")) ?? ""}`;
}
