/** A model of a fleet, as a server without it sees it: workers run it. */

import type {
  Engine,
  Frames,
  LoraReport,
  LoraUse,
  ModelInfo,
  RoomRequest,
} from "../engine/types.ts";
import { RecordsBusyError } from "../server/contract/errors.ts";
import { EngineState } from "../server/engine_state.ts";
import { ServiceError } from "../server/service_error.ts";
import type { Question } from "./calls.ts";
import type { Fleet } from "./fleet.ts";
import { Rooms } from "./rooms.ts";
import type { FleetModel, Worker } from "./roster.ts";

/** An engine for a model that workers of the fleet run. */
export class RemoteEngine implements Engine {
  /** What workers say of the model now. */
  about: FleetModel;
  readonly #fleet: Fleet;
  readonly #rooms: Rooms;

  constructor(about: FleetModel, fleet: Fleet) {
    this.about = about;
    this.#fleet = fleet;
    this.#rooms = new Rooms(fleet.calls);
  }

  get info(): ModelInfo {
    return this.about.info;
  }

  /** Loaded where a worker has it on its device. */
  get residence(): "loaded" | "unloaded" {
    return this.#workers.some((worker) => this.#isOn(worker)) ? "loaded" : "unloaded";
  }

  generate(): Promise<Frames> {
    return Promise.reject(new TypeError("Cannot generate here: the workers of the fleet do that"));
  }

  /** Refuses what no worker can hold that is there now. */
  async checkRoom(request: RoomRequest): Promise<void> {
    const { refusal } = await this.look(request);
    if (refusal !== undefined) throw new RangeError(refusal);
  }

  /** Which of the workers can hold a request. */
  look(request: RoomRequest): ReturnType<Rooms["look"]> {
    return this.#rooms.look(this.about.name, this.#workers, request);
  }

  /** A worker reads the files; where it cannot, another may answer, or have them. */
  async checkLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    if (loras.length === 0) return [];
    let last: unknown;
    for (const { id } of this.#workers) {
      try {
        return await this.#ask(id, { method: "check_loras", args: loras }) as LoraReport[];
      } catch (error) {
        last = error;
      }
    }
    throw last ?? this.#nobody();
  }

  /** A worker that is free and has the model does that. Where none is, they are checked alone: jobs bring their LoRAs. */
  async prepareLoras(loras: readonly LoraUse[]): Promise<readonly LoraReport[]> {
    const free = this.#workers
      .find((worker) => this.#isOn(worker) && worker.running.length < worker.places);
    if (loras.length === 0 || !free) return await this.checkLoras(loras);
    const question = { method: "check_loras", args: loras, isToPrepare: true } as const;
    try {
      return await this.#ask(free.id, question) as LoraReport[];
    } catch (error) {
      // It has gone, or has begun a job meanwhile.
      if (!(error instanceof RecordsBusyError)) throw error;
      return await this.checkLoras(loras);
    }
  }

  async load(): Promise<void> {
    await this.#askAll("load");
  }

  async unload(): Promise<void> {
    await this.#askAll("unload");
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  get #workers(): readonly Worker[] {
    return this.#fleet.roster.workers
      .filter(({ models, isDraining }) => models.includes(this.about.name) && !isDraining);
  }

  #isOn({ loadedModels }: Worker): boolean {
    return loadedModels.includes(this.about.name);
  }

  async #askAll(method: "load" | "unload"): Promise<void> {
    const workers = this.#workers;
    if (workers.length === 0) throw this.#nobody();
    await Promise.all(workers.map(({ id }) => this.#ask(id, { method })));
  }

  #ask(member: string, question: Omit<Question, "model">): Promise<unknown> {
    return this.#fleet.calls.ask(member, { ...question, model: this.about.name });
  }

  #nobody(): RecordsBusyError {
    return new RecordsBusyError(
      `Cannot ask for ${this.about.name}: no worker that serves it is there now; try again later`,
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

  protected override get loaded(): RemoteEngine | undefined {
    return this.#find();
  }

  override unavailable(): ServiceError {
    const message = "Cannot answer yet: no worker of the fleet serves a model";
    return new ServiceError("model_loading", message, { retryAfter: 5 });
  }
}
