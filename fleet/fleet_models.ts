/** The models of a fleet: they come with workers and go with them. */

import type { MergeMode } from "../generation/lora_words.ts";
import { badRequest } from "../server/contract/errors.ts";
import type { EngineState } from "../server/served_models.ts";
import { LORA_NOT_FOUND } from "../server/loras/lora_files.ts";
import { type LoraFinder, ServerLoras } from "../server/loras/server_loras.ts";
import { type ServedModel, ServedModels } from "../server/served_models.ts";
import type { Fleet } from "./fleet.ts";
import { RemoteEngine, RemoteState } from "./remote_engine.ts";
import { roomRequest } from "./requests.ts";
import type { FleetModel } from "./roster.ts";

interface Known {
  readonly engine: RemoteEngine;
  readonly served: ServedModel;
  /** The LoRAs that are set, as the database has them. */
  kept: string | undefined;
}

export class FleetModels {
  readonly #fleet: Fleet;
  readonly #loraMode: MergeMode;
  readonly #known = new Map<string, Known>();
  /** What routes see while there is no worker. */
  readonly #nobody: ServedModel;
  readonly engine: EngineState;
  readonly served: ServedModels;

  /** @param loraMode how LoRAs are brought in where a request does not say */
  constructor(fleet: Fleet, loraMode: MergeMode) {
    this.#fleet = fleet;
    this.#loraMode = loraMode;
    this.engine = new RemoteState(() => this.#first?.engine);
    const loras = new ServerLoras(this.engine, NO_FILES, loraMode);
    this.#nobody = { name: "", path: "", namedLoras: {}, engine: this.engine, loras };
    this.served = new ServedModels(() => this.#all, (name) => fleet.roster.isKnown(name));
  }

  async refresh(): Promise<void> {
    const { roster, database } = this.#fleet;
    for (const about of roster.models) {
      const known = this.#known.get(about.name);
      if (known) known.engine.about = about;
      else this.#known.set(about.name, this.#know(about));
    }
    const rows = await database
      .run`SELECT substr(name, 7) AS model, value FROM denoise_settings WHERE name LIKE 'loras:%'`;
    for (const { model, value } of rows) {
      const known = this.#known.get(model);
      if (!known || known.kept === value) continue;
      known.kept = value;
      known.served.loras.restore(JSON.parse(value));
    }
  }

  /** The memory that a worker needs for a job, in bytes; 0 where each worker has it, as far as is known. */
  async memoryFor(model: string | undefined, request: unknown): Promise<number> {
    const known = model === undefined ? this.#first : this.#known.get(model);
    return (await known?.engine.look(roomRequest(request)))?.memory ?? 0;
  }

  get #first(): Known | undefined {
    const [first] = this.#fleet.roster.models;
    return first && this.#known.get(first.name);
  }

  get #all(): readonly [ServedModel, ...ServedModel[]] {
    const [first, ...others] = this.#fleet.roster.models
      .flatMap(({ name }) => this.#known.get(name)?.served ?? []);
    return first ? [first, ...others] : [this.#nobody];
  }

  #know(about: FleetModel): Known {
    const { name } = about;
    const engine = new RemoteEngine(about, this.#fleet);
    const isServed = () => this.#fleet.roster.models.some((one) => one.name === name);
    const state = new RemoteState(() => isServed() ? engine : undefined);
    const files: LoraFinder = {
      find: (path) => {
        const isNickname = loras.loaded.some(({ nickname }) => nickname === path) &&
          !engine.about.loras.some(({ name }) => name === path);
        const refusal = badRequest(`${path} is a nickname`, "lora_path", LORA_NOT_FOUND);
        return isNickname ? Promise.reject(refusal) : NO_FILES.find(path);
      },
      list: () => Promise.resolve([...engine.about.loras]),
    };
    const keep = (kept: unknown) => this.#keep(known, JSON.stringify(kept));
    const loras: ServerLoras = new ServerLoras(state, files, this.#loraMode, keep);
    const served: ServedModel = {
      name,
      get path() {
        return engine.about.path;
      },
      get namedLoras() {
        return Object.fromEntries(engine.about.loras.map((lora) => [lora.name, lora.path]));
      },
      engine: state,
      loras,
    };
    const known: Known = { engine, served, kept: undefined };
    return known;
  }

  /** What is set holds for every server of the fleet. */
  async #keep(known: Known, kept: string): Promise<void> {
    known.kept = kept;
    await this.#fleet.database.use(async (sql) => {
      await sql`INSERT INTO denoise_settings VALUES (${`loras:${known.served.name}`}, ${kept})
        ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value`;
      await sql`SELECT pg_notify('denoise_fleet', 'loras')`;
    });
  }
}

/** Files that workers look for, each in its own folders. */
const NO_FILES: LoraFinder = {
  find: (path) => Promise.resolve(path),
  list: () => Promise.resolve([]),
};
