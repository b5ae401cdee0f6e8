import { basename } from "node:path";
import { obtainLora } from "../hub/lora_file.ts";
import { readLora } from "../models/lora/read_lora.ts";
import type { AdaptableComponent, AppliedLora, Lora } from "../models/lora/types.ts";
import { LoraCache } from "./lora_cache.ts";
import { checkLoraUses, type ResolvedLoras, resolveLoraUses } from "./lora_uses.ts";
import type { LoraMessage } from "./protocol.ts";
import type { LoraUse } from "./types.ts";

/** Most keys that a note names. */
const MAX_NAMED = 3;

/** What the LoRAs of a model are kept with. */
interface ModelLorasOptions {
  /** Most bytes in memory, those in use aside. */
  readonly loraCacheBytes?: number;
  /** Files by names that may be given in place of their paths. */
  readonly namedLoras?: Readonly<Record<string, string>>;
  /** Called with lines for a log. */
  readonly onNote?: (line: string) => void;
}

/** The LoRAs of one model: found, read, matched, kept, and told to the worker that applies them. */
export class ModelLoras {
  /** Components of the model; empty until it is loaded, and where LoRAs cannot be used. */
  components: readonly AdaptableComponent[] = [];
  readonly #cache: LoraCache;
  readonly #onNote: ModelLorasOptions["onNote"];
  /** Keys of the LoRAs that a worker has. */
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
   * Reads LoRAs where they are not in memory, and decides what they change and how.
   *
   * @throws {LoraError} when one of them cannot be used
   */
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
      if (!(error instanceof Deno.errors.NotFound) || named.size === 0) throw error;
      const names = [...named.keys()].join(", ");
      throw new Deno.errors.NotFound(`${error.message}; this model comes with ${names}`);
    }
  }

  async #readFile(path: string, options: { alpha?: number }): Promise<Lora> {
    const start = performance.now();
    const lora = await readLora(path, this.components, options);
    const { dialect, changes, unmatchedKeys, byteLength } = lora;
    const count = unmatchedKeys.length;
    const named = unmatchedKeys.slice(0, MAX_NAMED).join(", ") + (count > MAX_NAMED ? ", …" : "");
    const left = count > 0 ? `; ${count} keys fit no layer: ${named}` : "";
    this.#onNote?.(
      `Read LoRA ${basename(path)} (${dialect}, ${(byteLength / 1e6).toFixed(1)} MB) for ` +
        `${changes.length} layers in ${Math.round(performance.now() - start)} ms${left}`,
    );
    return lora;
  }
}
