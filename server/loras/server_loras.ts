/** The LoRAs of the server: what is loaded, what is set, and what a generation gets that names none. */

import type { NamedLora } from "../../generation/distilled_loras.ts";
import { resolve } from "node:path";
import { LRUCache } from "lru-cache";
import type { Engine, LoraReport } from "../../engine/types.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import type { LoraItem } from "../contract/generation_fields.ts";
import type { LoraTargetName, MergeMode } from "../../generation/lora_words.ts";
import {
  type AskedLora,
  type ChangeLoras,
  readLoraItems,
  type SetLoras,
} from "../contract/lora_requests.ts";
import type { EngineState } from "../served_models.ts";
import {
  explainEngineFailure,
  loraRefusal,
  namesOf,
  refuseUnmatched,
  toLoraUses,
} from "./engine_failure.ts";
import type { JobLora } from "../contract/lora_requests.ts";
import { HUB_NOT_ALLOWED, LORA_NOT_FOUND, type LoraFiles } from "./lora_files.ts";
import { nameStartLoras, type StartLora } from "./start_loras.ts";
import {
  activeLoras,
  isMeant,
  mergeSlots,
  setSlots,
  type Slot,
  type SlotLora,
  type SlotName,
  type Slots,
  unmergeSlots,
} from "./lora_slots.ts";

/** Nicknames that are remembered; of more, those that were set longest ago go. */
const MAX_NICKNAMES = 1000;

/** What the reference calls the only LoRA that a server was started with, beside its own nickname. */
const DEFAULT_NICKNAME = "default";

/** A LoRA that is in use. */
export interface ActiveLora extends SlotLora {
  /** How the LoRA fits the model. */
  readonly report: LoraReport;
}

export type LoraFinder = Pick<LoraFiles, "find" | "list"> & Partial<Pick<LoraFiles, "keep">>;

interface State {
  readonly slots: Slots;
  readonly active: readonly ActiveLora[];
  /** LoRAs by nickname, the one set last at the end. */
  readonly nicknames: ReadonlyMap<string, JobLora>;
}

/** The LoRAs of the server: loaded ones, set ones, and the usual ones of a generation. */
export class ServerLoras {
  readonly #engine: EngineState;
  readonly #files: LoraFinder;
  readonly #mode: MergeMode;
  readonly #onChange: ((kept: unknown) => Promise<void>) | undefined;
  /** Files that were found, by what clients called them. */
  readonly #found = new LRUCache<string, string>({ max: MAX_NICKNAMES });
  #state: State = { slots: new Map(), active: [], nicknames: new Map() };
  /** Changes are made one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  /** `mode` is how LoRAs of a generation are brought in that does not say. */
  constructor(
    engine: EngineState,
    files: LoraFinder,
    mode: MergeMode,
    onChange?: (kept: unknown) => Promise<void>,
  ) {
    this.#onChange = onChange;
    this.#engine = engine;
    this.#files = files;
    this.#mode = mode;
  }

  /** LoRAs that have a nickname, in the order in which they were set first. */
  get loaded(): { nickname: string; path: string }[] {
    this.#enabled();
    return [...this.#state.nicknames].map(([nickname, { path }]) => ({ nickname, path }));
  }

  /** LoRAs that a request can name in one word, those with nicknames first; none where the model takes none. */
  async offered(): Promise<{ name: string; path: string; isNickname: boolean }[]> {
    const { info } = this.#engine.engine;
    if (info.loraTargets.length === 0) return [];
    const known = [...this.#state.nicknames].map(([name, { path }]) => ({
      name,
      path,
      isNickname: true,
    }));
    const model = resolve(info.modelPath);
    const files = await this.#files.list((path) => path === model);
    const names = new Set(known.map(({ name }) => name));
    const others = files.filter(({ name }) => !names.has(name));
    return [...known, ...others.map((file) => ({ ...file, isNickname: false }))];
  }

  /** Finds the file of a LoRA that a client may name, or could name before: what is in memory may be gone from the disk. */
  async find(path: string, signal?: AbortSignal): Promise<string> {
    try {
      const file = await this.#files.find(path, signal);
      this.#found.set(path, file);
      return file;
    } catch (error) {
      const known = isGone(error) ? this.#found.get(path) : undefined;
      if (known === undefined) throw error;
      return known;
    }
  }

  /**
   * Keeps a LoRA that a client brings, for requests that name its file.
   *
   * @returns what of the model it would change; nothing is changed now
   * @throws {ApiError} 400 for a LoRA of another model, which is not kept; else as {@linkcode LoraFiles.keep} does
   */
  async keep(
    name: string,
    body: ReadableStream<Uint8Array<ArrayBuffer>>,
  ): Promise<readonly LoraReport[]> {
    this.#enabled();
    if (!this.#files.keep) {
      throw new ApiError(403, "Cannot keep LoRAs: the models of a fleet are on its workers");
    }
    return await this.#files.keep(name, body, async (file) => {
      const lora = { path: name, file, strength: 1, target: "all", mode: this.#mode } as const;
      return await this.#check(this.#engine.engine, [lora], "name");
    });
  }

  /** What is set, for whoever keeps it; a JSON value. */
  get kept(): unknown {
    const { slots, active, nicknames } = this.#state;
    return { slots: [...slots], active, nicknames: [...nicknames] };
  }

  /** Sets what was kept. The engine is not asked: jobs bring their LoRAs. */
  restore(kept: unknown): void {
    const { slots, active, nicknames } = kept as {
      slots: [SlotName, Slot][];
      active: ActiveLora[];
      nicknames: [string, JobLora][];
    };
    this.#state = { slots: new Map(slots), active, nicknames: new Map(nicknames) };
  }

  /** LoRAs in use, component by component, in the order in which they are applied. */
  get active(): readonly ActiveLora[] {
    this.#enabled();
    return this.#state.active;
  }

  /**
   * Sets LoRAs in place of those on the same components. Generations that were accepted before keep theirs.
   *
   * @param signal gives up as long as nothing has changed
   * @throws {ApiError} 400 when one of them cannot be used; nothing changes then
   */
  async set({ loras: askedFor, isStrict }: SetLoras, signal?: AbortSignal): Promise<ActiveLora[]> {
    this.#requireTargets(askedFor.map(({ target }) => target));
    const files = await this.#findAll(askedFor, signal);
    return await this.#inTurn(async () => {
      signal?.throwIfAborted();
      const { slots, nicknames } = this.#state;
      const loras = askedFor.map((asked, index) => {
        const lora = this.#complete(asked, files[index], "lora_nickname");
        return { ...lora, nickname: asked.nickname };
      });
      const engine = this.#engine.engine;
      const reports = await this.#check(engine, loras, "lora_path");
      if (isStrict) refuseUnmatched(loras, reports);
      const named = loras.map(({ target }) => target);
      await this.#commit(engine, setSlots(slots, loras, reports), remember(nicknames, loras));
      return this.#state.active.filter(({ target }) => isMeant(target, named));
    });
  }

  /** Merges what is set, or was before it was unmerged. @throws {ApiError} 400 for a component that the model lacks */
  async merge({ target, strength }: ChangeLoras): Promise<ActiveLora[]> {
    return await this.#change(target, (slots) => mergeSlots(slots, target, strength));
  }

  /** Takes LoRAs out of use. @throws {ApiError} 400 for a component that the model lacks */
  async unmerge({ target }: ChangeLoras): Promise<ActiveLora[]> {
    return await this.#change(target, (slots) => unmergeSlots(slots, target));
  }

  /** What the LoRAs of a generation are called, and how strong they are; nothing is looked for. */
  name(items: readonly LoraItem[] | null | undefined): readonly NamedLora[] {
    if (!items) return this.#state.active;
    return readLoraItems(items, this.#mode).map(({ path, nickname = "", strength }) => ({
      path: path ?? this.#state.nicknames.get(nickname)?.path ?? nickname,
      strength,
    }));
  }

  /** The LoRAs that a generation names, none for an empty list, else those that are set. @throws {ApiError} 400 for one that cannot be used */
  async resolve(
    items: readonly LoraItem[] | null | undefined,
    signal?: AbortSignal,
  ): Promise<JobLora[]> {
    if (!items) return this.#state.active.map(toJobLora);
    if (items.length === 0) return [];
    this.#enabled("loras");
    const asked = readLoraItems(items, this.#mode);
    const files = await this.#findAll(asked, signal);
    const loras = asked.map((item, index) => this.#complete(item, files[index], "loras"));
    await this.#check(this.#engine.engine, loras, "loras");
    return loras;
  }

  /** Sets the LoRAs that the server was started with, before it answers; the operator may name any file. */
  async begin(engine: Engine, asked: readonly StartLora[]): Promise<void> {
    const loras = nameStartLoras(asked, this.#mode);
    const reports = await this.#check(engine, loras, "--lora");
    const { slots, nicknames } = this.#state;
    // As the reference calls it.
    const aliases = loras.length === 1 ? [{ ...loras[0]!, nickname: DEFAULT_NICKNAME }] : [];
    const named = remember(nicknames, [...loras, ...aliases]);
    await this.#commit(engine, setSlots(slots, loras, reports), named);
  }

  async #change(
    target: LoraTargetName,
    change: (slots: Slots) => Slots,
  ): Promise<ActiveLora[]> {
    this.#requireTargets([target]);
    return await this.#inTurn(async () => {
      await this.#commit(
        this.#engine.engine,
        change(this.#state.slots),
        this.#state.nicknames,
      );
      return this.#state.active.filter((lora) => isMeant(lora.target, [target]));
    });
  }

  /** Brings LoRAs onto the device; only when they are there, they are set. */
  async #commit(engine: Engine, slots: Slots, nicknames: State["nicknames"]): Promise<void> {
    const loras = activeLoras(slots);
    const reports = await engine.prepareLoras(toLoraUses(loras))
      .catch((error) => explainEngineFailure(loraRefusal(error, "lora_path", namesOf(loras))));
    const active = reports.map((report) => ({ ...loras[report.index]!, report }));
    this.#state = { slots, active, nicknames };
    await this.#onChange?.(this.kept);
  }

  async #check(
    engine: Engine,
    loras: readonly JobLora[],
    param: string,
  ): Promise<readonly LoraReport[]> {
    return await engine.checkLoras(toLoraUses(loras))
      .catch((error) => explainEngineFailure(loraRefusal(error, param, namesOf(loras))));
  }

  /** Files of those that come with a path. */
  #findAll(
    asked: readonly AskedLora[],
    signal: AbortSignal | undefined,
  ): Promise<(Pick<JobLora, "path" | "file"> | undefined)[]> {
    return Promise.all(asked.map(async ({ path }) => {
      if (path === undefined) return undefined;
      try {
        return { path, file: await this.#files.find(path, signal) };
      } catch (error) {
        // It may be a nickname, or of a file that is in memory and gone from the disk.
        const { nicknames } = this.#state;
        const known = isGone(error) &&
          (nicknames.get(path) ?? [...nicknames.values()].find((lora) => lora.path === path));
        if (known) return { path: known.path, file: known.file };
        throw error;
      }
    }));
  }

  /** A LoRA with what is known of its nickname. */
  #complete(
    asked: AskedLora,
    found: Pick<JobLora, "path" | "file"> | undefined,
    param: "loras" | "lora_nickname",
  ): JobLora {
    if (found) return { ...asked, ...found };
    const known = this.#state.nicknames.get(asked.nickname!);
    if (!known) {
      throw badRequest(
        `LoRA ${asked.nickname} not found in the pipeline. ` +
          `Please provide ${param === "loras" ? "its path" : "lora_path"} to load it.`,
        param,
        "unknown_lora",
      );
    }
    const { path, alpha } = known;
    return { ...(alpha === undefined ? {} : { alpha }), ...asked, path, file: known.file };
  }

  /** Refuses targets that the model lacks; that a text encoder takes no LoRAs is for the engine to say. */
  #requireTargets(targets: readonly LoraTargetName[]): void {
    const { loraTargets } = this.#enabled();
    const known: readonly LoraTargetName[] = ["all", "text_encoder", ...loraTargets];
    const lacking = targets.find((target) => !known.includes(target));
    if (lacking === undefined) return;
    throw badRequest(
      `Cannot use target '${lacking}': this model has ${loraTargets.join(", ")}; ` +
        "name one of those, or 'all'",
      "target",
    );
  }

  #enabled(param?: string) {
    const { info } = this.#engine.engine;
    if (info.loraTargets.length > 0) return info;
    throw badRequest("Lora is not enabled", param, "lora_not_enabled");
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }
}

/** Whether there is no such LoRA, or none any more. */
function isGone(error: unknown): boolean {
  return error instanceof ApiError &&
    (error.code === LORA_NOT_FOUND || error.code === HUB_NOT_ALLOWED);
}

/** A LoRA as it is brought in now: whatever is set later, the job's result is the same. */
function toJobLora({ report, ...lora }: ActiveLora): JobLora {
  return { ...lora, mode: report.mode === "merged" ? "merge" : "dynamic" };
}

function remember(
  nicknames: State["nicknames"],
  loras: readonly (JobLora & { readonly nickname: string })[],
): Map<string, JobLora> {
  const next = new Map(nicknames);
  for (const lora of loras) next.set(lora.nickname, lora);
  for (const nickname of next.keys()) {
    if (next.size <= MAX_NICKNAMES) break;
    next.delete(nickname);
  }
  return next;
}
