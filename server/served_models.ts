/** The models of a server, and the engine of each while it loads, once it is there, and when it could not be loaded. */

import type { Engine, ModelInfo } from "../engine/types.ts";
import type { FoundSteering } from "./start_options.ts";
import { ApiError, ServiceError } from "./contract/errors.ts";
import { shorten } from "../generation/texts.ts";
import type { ServerLoras } from "./loras/server_loras.ts";

type EngineStatus = "loading" | "ready" | "failed";

/** An engine that may still be loading. */
export class EngineState {
  #engine: Engine | undefined;
  #failure: Error | undefined;
  #progress = 0;
  #isDownload = false;
  #opening: unknown;
  #lastInfo: ModelInfo | undefined;
  /** Resolves when loading has ended, well or not. */
  settled: Promise<void>;

  constructor(engine: Engine | Promise<Engine>) {
    if (!(engine instanceof Promise)) this.#engine = engine;
    this.settled = this.#follow(engine);
  }

  /** It is loading again; whatever was being loaded no longer counts. */
  reopen(engine: Promise<Engine>): void {
    this.#lastInfo = this.info;
    this.#engine = this.#failure = undefined;
    this.note(0);
    this.settled = this.#follow(engine);
  }

  async #follow(opening: Engine | Promise<Engine>): Promise<void> {
    this.#opening = opening;
    try {
      const engine = await opening;
      if (this.#opening === opening) this.#engine = engine;
    } catch (error) {
      if (this.#opening !== opening) return;
      this.#failure = error instanceof Error ? error : new Error(String(error));
    }
  }

  protected get loaded(): Engine | undefined {
    return this.#engine;
  }

  get status(): EngineStatus {
    if (this.loaded) return "ready";
    return this.#failure ? "failed" : "loading";
  }

  /** What is known of the model: also while it is opened again, as it was. */
  get info(): ModelInfo | undefined {
    return this.loaded?.info ?? this.#lastInfo;
  }

  /** Loaded share of the model, 0 to 1. */
  get progress(): number {
    return this.loaded ? 1 : this.#progress;
  }

  /** What the progress is of. */
  get stage(): "download" | "load" {
    return this.#isDownload ? "download" : "load";
  }

  /** Takes note of how far the loading is. */
  note(fraction: number, isDownload = false): void {
    this.#progress = Math.min(1, Math.max(0, fraction));
    this.#isDownload = isDownload;
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  /** @throws {ServiceError} until it is loaded */
  get engine(): Engine {
    const { loaded } = this;
    if (loaded) return loaded;
    throw this.unavailable();
  }

  /** Why there is no engine. */
  unavailable(): ServiceError {
    if (this.#failure) {
      const message = "Cannot answer: the model could not be loaded";
      return new ServiceError("model_failed", message, { retryAfter: 60 });
    }
    const percent = Math.floor(this.#progress * 100);
    const what = this.#isDownload ? "fetched from the hub" : "loading";
    const message = `Cannot answer yet: the model is ${what}, ${percent} % of it done`;
    return new ServiceError("model_loading", message, { retryAfter: 2 });
  }
}

export interface ServedModel {
  /** Public name of the model. */
  readonly name: string;
  /** Path of the model, as given by the operator. */
  readonly path: string;
  /** Other names of it, such as the id of a repository. */
  readonly aliases?: readonly string[];
  /** LoRAs by names that clients may give in place of their paths. */
  readonly namedLoras: Readonly<Record<string, string>>;
  readonly engine: EngineState;
  /** ControlNets and IP-Adapters that may be others. */
  readonly steering?: FoundSteering | undefined;
  /** LoRAs that are loaded and set on it. */
  readonly loras: ServerLoras;
}

/** The models of a server, at least one. */
type AllModels = readonly [ServedModel, ...ServedModel[]];

/** Models that come and go, beside those that the server was started with. */
export interface FurtherModels {
  readonly all: readonly ServedModel[];
  /** Looks again which ones there are. */
  refresh(): Promise<void>;
  /** The same, and waits a moment for those that are being opened. */
  settle(): Promise<void>;
  /** What a client could do that named a model which is not there. */
  advise(name: string): string | undefined;
}

/** Most names that a failure lists. */
const MAX_NAMES = 8;

/** Names of OpenAI's image and video models. */
const FOREIGN_MODEL = /^(?:openai\/)?(?:chat)?(?:gpt-image|dall-e|sora)(?:-|$)/i;

/** The models of a server; the first serves requests that name none. */
export class ServedModels {
  readonly #all: () => AllModels;
  readonly #isKnown: (name: string) => boolean;
  readonly #further: FurtherModels | undefined;

  /** Models come and go where `all` is a function; `isKnown` says whether one that is not there now was there before. */
  constructor(
    all: AllModels | (() => AllModels),
    isKnown: (name: string) => boolean = () => false,
    further?: FurtherModels,
  ) {
    this.#isKnown = isKnown;
    this.#further = further;
    this.#all = typeof all === "function" ? all : () => all;
  }

  /** All models, at least one. */
  get all(): AllModels {
    return this.#further ? [...this.#all(), ...this.#further.all] : this.#all();
  }

  /** The model of requests that name none. */
  get first(): ServedModel {
    return this.all[0];
  }

  /** A server started with one model takes the names of OpenAI's models for it, which many clients cannot but send. @throws {ApiError} 404 */
  pick(name: unknown): ServedModel {
    return this.choose(name) ?? this.refuse(String(name));
  }

  /** The same, and nothing where there is none. */
  choose(name: unknown): ServedModel | undefined {
    if (typeof name !== "string" || name === "") return this.first;
    const isForeign = this.#all().length === 1 && FOREIGN_MODEL.test(name) && !this.#isKnown(name);
    return this.find(name) ?? (isForeign ? this.first : undefined);
  }

  find(name: string): ServedModel | undefined {
    const { all } = this;
    return all.find((model) => model.name === name) ??
      all.find(({ aliases }) => aliases?.includes(name));
  }

  /** Looks for a model that may have come since. */
  async seek(name: unknown): Promise<void> {
    const isUnknown = typeof name === "string" && name !== "" && !this.find(name);
    if (isUnknown) await this.#further?.refresh();
  }

  /** Waits a moment for models that have come since. */
  async settle(): Promise<void> {
    if (this.first.engine.status === "ready") await this.#further?.settle();
  }

  /** @throws {ApiError} 404, with what may be done and, if they are to be listed, the names that there are */
  refuse(name: string, isListing = true): never {
    const names = this.all.map((model) => `'${model.name}'`);
    const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "";
    const list = `; this server has ${names.slice(0, MAX_NAMES).join(", ")}${more}`;
    const advice = this.#further?.advise(name);
    throw new ApiError(
      404,
      `The model '${shorten(name)}' does not exist${isListing ? list : ""}${
        advice ? `; ${advice}` : ""
      }`,
      { param: "model", code: "model_not_found" },
    );
  }
}

/** Where a model is, for the client. */
export function stateOf(
  { engine }: Pick<ServedModel, "engine">,
): "loaded" | "loading" | "unloaded" | "failed" {
  if (engine.status !== "ready") return engine.status;
  return engine.engine.residence;
}
