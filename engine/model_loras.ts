import { basename } from "node:path";
import { obtainLora } from "../hub/lora_file.ts";
import { readLora } from "../models/lora/read_lora.ts";
import type { AdaptableComponent, AppliedLora, Lora, LoraComponent } from "../models/lora/types.ts";
import { LoraError } from "../models/lora/lora_error.ts";
import { resolveModes } from "../models/lora/resolve_mode.ts";
import { type CachedLora, LoraCache } from "./lora_cache.ts";
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

/** Far beyond what any LoRA stands; more would only overflow. */
const MAX_STRENGTH = 100;

/** What both text encoders of a model are called. */
const TEXT = "text_encoder";

/** What a pipeline is given, in the order of the uses, and what is said of it. */
interface ResolvedLoras {
  readonly applied: readonly AppliedLora[];
  readonly reports: readonly LoraReport[];
}

export function loraTargets(components: readonly AdaptableComponent[]): LoraTarget[] {
  return components.flatMap(({ target }) =>
    target === TEXT || target === "text_encoder_2" ? [] : target
  );
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
      target === "all" || own === target ||
      target === TEXT && own === "text_encoder_2"
    ),
    mode,
  }));
  const modes = resolveModes(meant, components, isStanding);
  const reports: LoraReport[] = [];
  const applied = meant.map(({ key, lora, targets }, index): AppliedLora => {
    const { path, strength = 1 } = uses[index]!;
    const { mode, note } = modes[index]!;
    // Callers know of one text encoder.
    const names = new Set(targets.map((name) => name === "text_encoder_2" ? TEXT : name));
    const changed = [...names].flatMap((target) => {
      const changes = lora.changes.filter(({ target: own }) =>
        own === target || target === TEXT && own === "text_encoder_2" && targets.includes(own)
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
