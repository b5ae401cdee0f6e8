import { basename } from "node:path";
import { obtainAdapter } from "../hub/adapter_file.ts";
import { readAdapter } from "../models/adapters/read_adapter.ts";
import type { AdaptableComponent, Adapter, AppliedAdapter } from "../models/adapters/types.ts";
import { LoraCache } from "./lora_cache.ts";
import { checkLoraUses, type ResolvedLoras, resolveLoraUses } from "./lora_uses.ts";
import type { AdapterMessage } from "./protocol.ts";
import type { EngineOptions, LoraUse } from "./types.ts";

/** Most keys that a note names. */
const MAX_NAMED = 3;

/** What the adapters of a model are kept with. */
export type ModelLorasOptions = Pick<EngineOptions, "loraCacheBytes" | "namedLoras" | "onNote">;

/** The adapters of one model: found, read, matched, kept, and told to the worker that applies them. */
export class ModelLoras {
  /** Of the model; empty until it is loaded, and where adapters cannot be used. */
  components: readonly AdaptableComponent[] = [];
  readonly #cache: LoraCache;
  readonly #onNote: EngineOptions["onNote"];
  /** Keys of the adapters that a worker has. */
  readonly #held = new WeakMap<object, Set<string>>();

  /** Nothing is read yet. */
  constructor({ loraCacheBytes, namedLoras = {}, onNote }: ModelLorasOptions = {}) {
    this.#onNote = onNote;
    this.#cache = new LoraCache({
      ...(loraCacheBytes === undefined ? {} : { maxBytes: loraCacheBytes }),
      find: (path) => this.#findFile(path, new Map(Object.entries(namedLoras))),
      read: (path, options) => this.#readFile(path, options),
    });
  }

  /**
   * Reads adapters where they are not in memory, and decides what they change and how.
   *
   * @param isStanding whether they stay for many requests
   * @throws {LoraError} when one of them cannot be used
   */
  async resolve(uses: readonly LoraUse[], isStanding: boolean): Promise<ResolvedLoras> {
    checkLoraUses(uses, this.components);
    return resolveLoraUses(uses, await this.#cache.load(uses), this.components, isStanding);
  }

  /** Keeps these in memory, whatever the bound, until the next call. */
  pin(applied: readonly AppliedAdapter[]): void {
    this.#cache.pin(applied.map(({ key }) => key));
  }

  /** What a worker has to know of adapters. Call it only for a message that is sent: it is taken for told. */
  messageFor(worker: object, applied: readonly AppliedAdapter[]): AdapterMessage {
    const held = this.#held.get(worker) ?? new Set();
    this.#held.set(worker, held);
    const needed = new Map(applied.map(({ key, adapter }) => [key, adapter]));
    const forgotten = [...held].filter((key) => !needed.has(key) && !this.#cache.has(key));
    for (const key of forgotten) held.delete(key);
    const added = new Map([...needed].filter(([key]) => !held.has(key)));
    for (const key of added.keys()) held.add(key);
    return { uses: applied.map(({ adapter: _, ...use }) => use), added, forgotten };
  }

  async #findFile(path: string, named: ReadonlyMap<string, string>): Promise<string> {
    const note = () => this.#onNote?.(`Fetching adapter ${path} from the hub`);
    try {
      return await obtainAdapter(named.get(path) ?? path, {}, note);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound) || named.size === 0) throw error;
      const names = [...named.keys()].join(", ");
      throw new Deno.errors.NotFound(`${error.message}; this model comes with ${names}`);
    }
  }

  async #readFile(path: string, options: { alpha?: number }): Promise<Adapter> {
    const start = performance.now();
    const adapter = await readAdapter(path, this.components, options);
    const { dialect, changes, unmatchedKeys, byteLength } = adapter;
    const count = unmatchedKeys.length;
    const named = unmatchedKeys.slice(0, MAX_NAMED).join(", ") + (count > MAX_NAMED ? ", …" : "");
    const left = count > 0 ? `; ${count} keys fit no layer: ${named}` : "";
    this.#onNote?.(
      `Read adapter ${basename(path)} (${dialect}, ${(byteLength / 1e6).toFixed(1)} MB) for ` +
        `${changes.length} layers in ${Math.round(performance.now() - start)} ms${left}`,
    );
    return adapter;
  }
}
