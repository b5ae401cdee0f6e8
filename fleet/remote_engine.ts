/** A model of a fleet, as a server without it sees it: workers run it. */

import type {
  Engine,
  Frames,
  LoraReport,
  LoraUse,
  ModelInfo,
  RoomRequest,
} from "../engine/types.ts";
import { LRUCache } from "lru-cache";
import { SettingError } from "../models/setting_error.ts";
import { RecordsBusyError } from "../server/contract/errors.ts";
import { EngineState } from "../server/served_models.ts";
import { ServiceError } from "../server/contract/errors.ts";
import type { Question } from "./calls.ts";
import type { Fleet } from "./fleet.ts";
import { onlyRoom, type RoomAnswer } from "./requests.ts";
import type { FleetModel, Worker } from "./roster.ts";

/** How long a worker may take to say whether it can hold a request, in milliseconds: it may be dead. */
const ROOM_MS = 3000;
/** How long a worker that did not answer is not asked again, in milliseconds. */
const SILENT_MS = 10_000;
/** Most workers of one kind that are asked before a request is refused. */
const MAX_ASKED = 16;
const MAX_KNOWN = 1024;

interface Room {
  /** Why no worker can hold it; undefined where one can, or none has said. */
  readonly refusal: string | undefined;
  /** The setting that is refused, where it is one. */
  readonly setting?: string | undefined;
  /** Bytes that a worker's device must have at least; 0 where each worker has them, as far as is known. */
  readonly memory: number;
}

/** An engine for a model that workers of the fleet run. */
export class RemoteEngine implements Engine {
  about: FleetModel;
  readonly #fleet: Fleet;
  /** What workers said of requests; nothing where one did not answer. */
  readonly #rooms = new LRUCache<string, Promise<RoomAnswer | undefined>>({ max: MAX_KNOWN });

  constructor(about: FleetModel, fleet: Fleet) {
    this.about = about;
    this.#fleet = fleet;
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
    const { refusal, setting } = await this.look(request);
    if (refusal === undefined) return;
    throw setting === undefined ? new RangeError(refusal) : new SettingError(setting, refusal);
  }

  /** Asks a worker of each kind of device; all of them where each of these refuses. */
  async look(request: RoomRequest): Promise<Room> {
    const size = onlyRoom(request);
    const ask = async (worker: Worker) => ({
      memory: worker.memory ?? Infinity,
      ...await this.#askRoom(worker, size),
    });
    const kinds = [...Map.groupBy(this.#workers, kindOf).values()];
    const answers = await Promise.all(kinds.map(([first]) => ask(first!)));
    const isRefused = () => answers.length > 0 && answers.every(({ refusal }) => refusal);
    if (isRefused()) {
      const others = kinds.flatMap(([, ...others]) => others.slice(0, MAX_ASKED));
      answers.push(...await Promise.all(others.map(ask)));
    }
    if (isRefused()) {
      const largest = answers.reduce((one, other) => other.memory > one.memory ? other : one);
      return { refusal: largest.refusal, setting: largest.setting, memory: 0 };
    }
    const holders = answers.filter(({ refusal }) => !refusal).map(({ memory }) => memory);
    const needs = Math.max(0, ...answers.map(({ needs = 0 }) => needs));
    // A worker that can hold it may have settings by which it takes less.
    return { refusal: undefined, memory: Math.min(needs, ...holders) };
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

  #askRoom(worker: Worker, args: RoomRequest): Promise<RoomAnswer | undefined> {
    const key = JSON.stringify([worker.id, args]);
    const known = this.#rooms.get(key);
    if (known) return known;
    const answer = this.#ask(worker.id, { method: "check_room", args }, ROOM_MS).then(
      (said) => said as RoomAnswer,
      () => {
        this.#rooms.set(key, answer, { ttl: SILENT_MS });
        return undefined;
      },
    );
    this.#rooms.set(key, answer);
    return answer;
  }

  async #askAll(method: "load" | "unload"): Promise<void> {
    const workers = this.#workers;
    if (workers.length === 0) throw this.#nobody();
    await Promise.all(workers.map(({ id }) => this.#ask(id, { method })));
  }

  #ask(member: string, question: Omit<Question, "model">, patienceMs?: number): Promise<unknown> {
    return this.#fleet.calls.ask(member, { ...question, model: this.about.name }, patienceMs);
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

/** Workers with the same devices hold the same. */
function kindOf({ version, memory, cards }: Worker): string {
  const names = cards.map((card) => (card as { device?: string | null }).device ?? null);
  return JSON.stringify([version, memory ?? null, names]);
}
