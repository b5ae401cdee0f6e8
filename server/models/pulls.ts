/** Models on their way from the hub to this machine, one at a time. */

import { isHubId, parseHubFile } from "../../hub/cache.ts";
import { partNamed } from "../../hub/catalogue_parts.ts";
import type { HubSettings } from "../../hub/hub_settings.ts";
import { obtainModel, obtainPart } from "../../hub/obtain_model.ts";
import { findNamed, obtainNamed } from "../../hub/obtain_named.ts";
import { choosePrecision, downloadBytes, USUAL_BYTES } from "../../hub/precision.ts";
import type { ChosenFiles, PullProgress } from "../../hub/pull.ts";
import { shorten } from "../../generation/texts.ts";
import type { ModelPull } from "../contract/answers.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import type { Log } from "../log.ts";

/** Most pulls that wait or run. */
const MAX_ACTIVE = 16;
/** Bytes of the disk that stay free, for records and results. */
const MIN_FREE_BYTES = 2 ** 30;
/** Most pulls that are remembered. */
const MAX_KEPT = 100;

const OURS = /^Cannot /;

interface PullServices {
  readonly hub: () => Promise<HubSettings>;
  /** Bytes that the GPU can give; nothing where that is not known. */
  readonly availableBytes: () => number | undefined;
  /** Told when a model, or a part of models, has come. */
  readonly onDone: (name: string) => void;
  readonly log: Log;
}

type Change = Partial<Omit<ModelPull, "id" | "object" | "model" | "created_at">>;

interface Entry {
  record: ModelPull;
  stop: AbortController;
  readonly watchers: Set<(record: ModelPull) => void>;
  /** Ends when nothing more is written. */
  work?: Promise<void>;
}

export class Pulls {
  readonly #services: PullServices;
  readonly #entries = new Map<string, Entry>();
  #turn: Promise<void> = Promise.resolve();

  constructor(services: PullServices) {
    this.#services = services;
  }

  get all(): ModelPull[] {
    return [...this.#entries.values()].map(({ record }) => record);
  }

  find(id: string): ModelPull | undefined {
    return this.#entries.get(id)?.record;
  }

  /** Fetches what is missing of a model; one that is on its way already is joined. @throws {ApiError} for what is no model's name */
  async start(asked: string): Promise<ModelPull> {
    const model = await checkName(asked);
    const known = [...this.#entries.values()].find(({ record }) => record.model === model);
    if (known && !isOver(known.record)) return known.record;
    if (this.all.filter((record) => !isOver(record)).length >= MAX_ACTIVE) {
      throw new ApiError(429, `Cannot pull ${model}: ${MAX_ACTIVE} pulls wait or run already`, {
        code: "queue_full",
        headers: { "retry-after": "60" },
      });
    }
    if (known) this.#entries.delete(known.record.id);
    const oldest = this.all.find(isOver);
    if (this.#entries.size >= MAX_KEPT && oldest) this.#entries.delete(oldest.id);
    const entry: Entry = {
      record: {
        id: known?.record.id ?? `pull_${crypto.randomUUID()}`,
        object: "model.pull",
        model,
        status: "queued",
        completed_bytes: known?.record.completed_bytes ?? 0,
        total_bytes: known?.record.total_bytes ?? 0,
        bytes_per_second: 0,
        eta_s: null,
        message: null,
        error: null,
        created_at: Math.floor(Date.now() / 1000),
      },
      stop: new AbortController(),
      watchers: known?.watchers ?? new Set(),
      // One that was just stopped may still write.
      ...(known?.work && { work: known.work }),
    };
    this.#entries.set(entry.record.id, entry);
    this.#turn = this.#turn.then(() => entry.work = this.#run(entry));
    return entry.record;
  }

  /** Stops a pull; what has come stays, and the next one goes on from there. */
  stop(id: string): ModelPull | undefined {
    const entry = this.#entries.get(id);
    if (!entry || isOver(entry.record)) return entry?.record;
    entry.stop.abort();
    return this.#change(entry, { status: "stopped", bytes_per_second: 0, eta_s: null });
  }

  /** Stops the pulls of models, of whatever precision or file, and forgets them when nothing more is written. */
  async end(names: readonly string[]): Promise<void> {
    const ours = [...this.#entries.values()].filter(({ record }) =>
      names.includes(record.model.split(":")[0]!)
    );
    for (const { record } of ours) this.stop(record.id);
    await Promise.all(ours.map(({ work }) => work));
    for (const { record } of ours) this.#entries.delete(record.id);
  }

  /** Tells of every change until the result is called. */
  watch(id: string, watcher: (record: ModelPull) => void): () => void {
    const watchers = this.#entries.get(id)?.watchers;
    watchers?.add(watcher);
    return () => watchers?.delete(watcher);
  }

  close(): void {
    for (const { id } of this.all) this.stop(id);
  }

  #change(entry: Entry, change: Change): ModelPull {
    // What was stopped may still be told how far it came.
    if (isOver(entry.record)) return entry.record;
    entry.record = { ...entry.record, ...change };
    for (const watcher of entry.watchers) watcher(entry.record);
    return entry.record;
  }

  async #run(entry: Entry): Promise<void> {
    const { log, onDone } = this.#services;
    const { model } = entry.record;
    const { signal } = entry.stop;
    if (signal.aborted) return;
    this.#change(entry, { status: "running" });
    log(`Pulling ${model}`);
    const left = { bytes_per_second: 0, eta_s: null };
    try {
      await this.#fetch(entry, signal);
      const bytes = entry.record.completed_bytes;
      this.#change(entry, { ...left, status: "completed", total_bytes: bytes });
      log(`Pulled ${model}: ${(bytes / 1e9).toFixed(1)} GB`);
      onDone(model);
    } catch (error) {
      if (signal.aborted) return log(`Pull of ${model} stopped`);
      const text = error instanceof Error ? error.message : String(error);
      const message = OURS.test(text) ? text : `Cannot pull ${model}: ${text}`;
      this.#change(entry, { ...left, status: "failed", error: { code: "pull_failed", message } });
      log(message, { level: "error" });
    }
  }

  async #fetch(entry: Entry, signal: AbortSignal): Promise<void> {
    const settings = await this.#services.hub();
    const { model } = entry.record;
    const named = await findNamed(model);
    // Bytes of repositories that are done, and of all of which the hub has told.
    let [before, known, least] = [0, 0, 0];
    const options = {
      settings,
      signal,
      minFreeBytes: MIN_FREE_BYTES,
      onChosen: ({ id, bytes }: ChosenFiles) => {
        before = known;
        known += bytes;
        // A repository of quantised weights comes first, then that of the rest.
        const isLast = !(named && "entry" in named) || id === named.entry.repository;
        this.#change(entry, { total_bytes: isLast ? known : Math.max(known, least) });
      },
      onProgress: ({ doneBytes, bytesPerSecond }: PullProgress) => {
        const completed = before + doneBytes;
        const missing = entry.record.total_bytes - completed;
        this.#change(entry, {
          completed_bytes: completed,
          bytes_per_second: Math.round(bytesPerSecond),
          eta_s: bytesPerSecond > 0 ? Math.round(missing / bytesPerSecond) : null,
        });
      },
      onNote: (message: string) => void this.#change(entry, { message }),
    };
    const measure = (wantedBytes: number) => {
      const bytes = this.#services.availableBytes() ?? USUAL_BYTES;
      return Promise.resolve(Math.min(bytes, wantedBytes));
    };
    if (named && "entry" in named) {
      const { entry, precision = choosePrecision(entry, await measure(Infinity)) } = named;
      least = downloadBytes(entry, precision);
      await obtainNamed(named, { ...options, measure });
      return;
    }
    const part = named ? undefined : partNamed(model);
    if (part) await obtainPart(model, part.part, options);
    else await obtainModel(named?.own.model ?? model, options);
  }
}

export function isOver({ status }: ModelPull): boolean {
  return status !== "queued" && status !== "running";
}

/** A name as it is written here. @throws {ApiError} 400 for what is neither a name of the catalogue or the user's file nor a hub id */
async function checkName(asked: string): Promise<string> {
  const text = asked.trim();
  const refuse = (why: string) => badRequest(`Cannot pull ${shorten(text)}: ${why}`, "model");
  const named = await findNamed(text).catch((error) => {
    // It names the precisions that there are.
    if (error instanceof RangeError) throw badRequest(error.message, "model");
    throw error;
  });
  if (named && "own" in named && !isModelId(named.own.model)) {
    throw refuse(`it stands for ${named.own.model}, which is no hub id`);
  }
  if (named) return text.toLowerCase();
  if (isModelId(text)) return text;
  if (partNamed(text)) return text.toLowerCase();
  throw refuse("it is neither a name of GET /v1/catalogue nor a hub id, as org/name");
}

function isModelId(text: string): boolean {
  return isHubId(text) || parseHubFile(text) !== undefined;
}
