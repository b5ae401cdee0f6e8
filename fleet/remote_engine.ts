/** A model of a fleet, as a server without it sees it: workers run it. */

import type {
  Engine,
  Frames,
  GenerateRequest,
  LoraReport,
  LoraUse,
  ModelInfo,
  RoomRequest,
} from "../engine/types.ts";
import { EngineState } from "../server/engine_state.ts";
import { RecordsBusyError } from "../server/contract/errors.ts";
import { ServiceError } from "../server/service_error.ts";
import type { Calls, Question } from "./calls.ts";
import { type Room, Rooms } from "./rooms.ts";
import type { FleetModel, Member, Roster } from "./roster.ts";

/** What a remote engine works with. */
interface RemoteOptions {
  /** Public name of the model. */
  readonly name: string;
  /** Who serves it. */
  readonly roster: Roster;
  /** Calls to workers. */
  readonly calls: Calls;
}

/** An engine for a model that workers of the fleet run. */
export class RemoteEngine implements Engine {
  readonly #options: RemoteOptions;
  readonly #rooms: Rooms;
  #info: ModelInfo;

  constructor(info: ModelInfo, options: RemoteOptions) {
    this.#info = info;
    this.#options = options;
    this.#rooms = new Rooms(options.calls);
  }

  /** See {@link Engine.info}. */
  get info(): ModelInfo {
    return this.#info;
  }

  /** What workers say of the model now. */
  set info(info: ModelInfo) {
    this.#info = info;
  }

  /** Whether a worker has it on its device. */
  get isLoaded(): boolean {
    return this.#workers.some(({ loadedModels }) => loadedModels.includes(this.#options.name));
  }

  /** Where the model is, as {@link isLoaded} in a word. */
  get residence(): "loaded" | "unloaded" {
    return this.isLoaded ? "loaded" : "unloaded";
  }

  /** Workers do that. */
  generate(_request: GenerateRequest): Promise<Frames> {
    return Promise.reject(new TypeError("Cannot generate here: the workers of the fleet do that"));
  }

  /** See {@link Engine.checkRoom}: refuses what no worker can hold that is there now. */
  async checkRoom(request: RoomRequest): Promise<void> {
    const { refusal } = await this.look(request);
    if (refusal !== undefined) throw new RangeError(refusal);
  }

  /** Which of the workers can hold a request. */
  look(request: RoomRequest): Promise<Room> {
    return this.#rooms.look(this.#options.name, this.#workers, request);
  }

  /** See {@link Engine.checkLoras}: a worker reads the files. */
  async checkLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    if (loras.length === 0) return [];
    let last: unknown;
    for (const { id } of this.#workers) {
      try {
        return await this.#ask(id, "check_loras", loras) as LoraReport[];
      } catch (error) {
        // Another worker may answer, or have the file.
        last = error;
      }
    }
    throw last ?? this.#nobody();
  }

  /**
   * See {@link Engine.prepareLoras}: a worker that is free and has the model does that. Where none is, they are checked
   * alone: jobs bring their LoRAs.
   */
  async prepareLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    if (loras.length === 0) return [];
    const { name } = this.#options;
    const free = this.#workers.find(({ loadedModels, running, places }) =>
      loadedModels.includes(name) && running.length < places
    );
    if (!free) return await this.checkLoras(loras);
    try {
      return await this.#ask(free.id, "check_loras", loras, true) as LoraReport[];
    } catch (error) {
      // It has gone, or has begun a job meanwhile.
      if (!(error instanceof RecordsBusyError)) throw error;
      return await this.checkLoras(loras);
    }
  }

  /** Has every worker load it that serves it. */
  async load(): Promise<void> {
    await this.#askAll("load");
  }

  /** Has every worker unload it. */
  async unload(): Promise<void> {
    await this.#askAll("unload");
  }

  /** Workers were told when they were started. */
  limitMemory(): void {}

  /** Workers go on. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  get #workers(): readonly Member[] {
    return this.#options.roster.workers
      .filter(({ models, isDraining }) => models.includes(this.#options.name) && !isDraining);
  }

  async #askAll(method: Question["method"]): Promise<void> {
    const workers = this.#workers;
    if (workers.length === 0) throw this.#nobody();
    await Promise.all(workers.map(({ id }) => this.#ask(id, method)));
  }

  #ask(
    member: string,
    method: Question["method"],
    args?: unknown,
    isToPrepare = false,
  ): Promise<unknown> {
    const question = { method, model: this.#options.name, args };
    return this.#options.calls.ask(member, isToPrepare ? { ...question, isToPrepare } : question);
  }

  #nobody(): RecordsBusyError {
    return new RecordsBusyError(
      `Cannot ask for ${this.#options.name}: no worker that serves it is there now; try again later`,
    );
  }
}

/** The state of a model that comes with the first worker that serves it. */
export class RemoteState extends EngineState {
  readonly #find: () => RemoteEngine | undefined;
  /** Nobody loads it here, so nobody can wait for it. */
  override readonly settled = Promise.resolve();

  /** @param find gives the engine while the model is served */
  constructor(find: () => RemoteEngine | undefined) {
    super(new Promise(() => {}));
    this.#find = find;
  }

  /** See {@link EngineState.status}. */
  override get status(): EngineState["status"] {
    return this.#find() ? "ready" : "loading";
  }

  /** See {@link EngineState.progress}. */
  override get progress(): number {
    return this.#find() ? 1 : 0;
  }

  /** See {@link EngineState.engine}. */
  override get engine(): Engine {
    const engine = this.#find();
    if (engine) return engine;
    throw this.unavailable();
  }

  /** See {@link EngineState.unavailable}. */
  override unavailable(): ServiceError {
    const message = "Cannot answer yet: no worker of the fleet serves a model";
    return new ServiceError("model_loading", message, { retryAfter: 5 });
  }
}

/** The engine of a model. */
export function remoteEngine(
  { name, info }: FleetModel,
  options: Omit<RemoteOptions, "name">,
): RemoteEngine {
  return new RemoteEngine(info, { ...options, name });
}
