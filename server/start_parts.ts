/** What servers do when they start and stop: their models, storage and waits. */

import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Engine } from "../engine/types.ts";
import {
  EngineState,
  type FurtherModels,
  type ServedModel,
  ServedModels,
} from "./served_models.ts";
import type { Log } from "./log.ts";
import { ServerLoras } from "./loras/server_loras.ts";
import type { StartLora } from "./loras/start_loras.ts";
import type { EngineOpener, OtherSource, StartOptions } from "./start_options.ts";
import { LocalStorage } from "./storage/local.ts";
import type { ResultStorage } from "./storage/result_storage.ts";
import { S3Storage } from "./storage/s3.ts";
import type { S3Settings } from "./storage/s3_settings.ts";
import { LoraFiles } from "./loras/lora_files.ts";
import type { ServerSettings } from "./settings.ts";

/** How long the GPU's thread may take to end, in milliseconds: a kernel that is being compiled has to be done first. */
const FREE_MS = 15_000;

/** The models of a process, while they are opened and until they are freed. */
export class OpeningModels {
  readonly engine: EngineState;
  readonly others: readonly OtherModel[];
  readonly #first = Promise.withResolvers<Engine>();
  readonly #rest;
  readonly #openFirst: EngineOpener;
  readonly #log: Log;
  #isOpening = false;

  constructor({ openEngine, others = [], log = () => {} }: StartOptions) {
    this.engine = new EngineState(this.#first.promise);
    this.#rest = others.map((source) => {
      const opened = Promise.withResolvers<Engine>();
      return { ...source, opened, engine: new EngineState(opened.promise) };
    });
    this.others = this.#rest;
    this.#openFirst = openEngine;
    this.#log = log;
  }

  /**
   * Opens the first one, which `complete` makes ready, then the others one after the other. One of these that cannot be
   * opened is told in the log, and the rest is served.
   */
  async open(
    signal: AbortSignal,
    complete: (engine: Engine) => Promise<Engine> = (engine) => Promise.resolve(engine),
  ): Promise<void> {
    this.#isOpening = true;
    Promise.try(this.#openFirst, (...progress) => this.engine.note(...progress), signal)
      .then(complete)
      .then(this.#first.resolve, this.#first.reject);
    await this.engine.settled;
    for (const { name, open, opened, engine } of this.#rest) {
      try {
        signal.throwIfAborted();
        opened.resolve(await open((...progress) => engine.note(...progress), signal));
      } catch (error) {
        const { message } = error as Error;
        if (!signal.aborted) this.#log(`Cannot serve ${name}: ${message}`, { level: "error" });
        opened.reject(error);
      }
    }
  }

  /** Frees the models, those that are opened in spite of the signal, too. @throws {Error} when a GPU's thread is still at work */
  async free(): Promise<void> {
    if (!this.#isOpening) return;
    const freed = [this.#first, ...this.#rest.map(({ opened }) => opened)]
      .map(({ promise }) => promise.then((late) => late.close(), () => {}));
    await within(FREE_MS, Promise.all(freed));
  }
}

/** Where a folder is; `""` stays. */
export function absolute(path: string): string {
  return path === "" ? "" : resolve(path);
}

/** The engine with LoRAs set; closed when they cannot be. */
export async function withLoras(
  engine: Engine,
  serverLoras: ServerLoras,
  loras: readonly StartLora[],
): Promise<Engine> {
  try {
    if (loras.length > 0) await serverLoras.begin(engine, loras);
    return engine;
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/** Where results are kept. */
export function openStorage(
  outputPath: string,
  s3: S3Settings | undefined,
  log: Log,
  isShared = false,
): ResultStorage | undefined {
  if (s3 === undefined) return outputPath === "" ? undefined : new LocalStorage(outputPath);
  const folder = outputPath || join(tmpdir(), `denoise-results-${crypto.randomUUID()}`);
  return new S3Storage(s3, new LocalStorage(folder), log, { isShared });
}

/**
 * Waits for the GPU's thread to end.
 *
 * @param ms how long, in milliseconds
 * @throws {Error} when it has not by then
 */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() =>
    late.reject(
      new Error(
        `Cannot free the GPU: its thread is still at work ${ms / 1000} s after it was told to end`,
      ),
    ), ms);
  await Promise.race([work, late.promise]).finally(() => clearTimeout(timer));
}

/** A further model of a server. */
export interface OtherModel extends Omit<OtherSource, "open"> {
  /** The model, loaded or loading. */
  readonly engine: Engine | EngineState;
}

/** What {@link localModels} makes models of. */
interface LocalModels {
  readonly engine: EngineState;
  readonly others: readonly OtherModel[];
  /** Models that come and go. */
  readonly found?: FurtherModels | undefined;
  /** Names, and where LoRAs may come from. */
  readonly settings: ServerSettings;
  readonly log: Log;
}

/** The models of a process, each with LoRAs of its own. */
export function localModels({ engine, others, found, settings, log }: LocalModels): ServedModels {
  const { servedModelName: name, modelPath: path, namedLoras } = settings;
  const first = localModel({ name, path, namedLoras }, engine, settings, log);
  const rest = others.map((other) => localModel(other, engineState(other.engine), settings, log));
  return new ServedModels([first, ...rest], undefined, found);
}

/** A model with LoRAs of its own. */
export function localModel(
  { name, path, namedLoras = {}, loraFolders, aliases = [], steering }:
    & Omit<OtherSource, "open">
    & Pick<ServedModel, "aliases" | "steering">,
  engine: EngineState,
  { loraFolders: usual, loraMergeMode, allowHubLoras: allowHub }: ServerSettings,
  log: Log,
): ServedModel {
  const folders = loraFolders ?? usual;
  const files = new LoraFiles({ folders, named: namedLoras, allowHub, log });
  const loras = new ServerLoras(engine, files, loraMergeMode);
  return { name, path, aliases, namedLoras, engine, loras, steering };
}

export function engineState(engine: Engine | Promise<Engine> | EngineState): EngineState {
  return engine instanceof EngineState ? engine : new EngineState(engine);
}
