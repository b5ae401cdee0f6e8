/** The models of a fleet: they come with workers and go with them. */

import type { MergeMode } from "../generation/lora_words.ts";
import type { EngineState } from "../server/engine_state.ts";
import { ServerLoras } from "../server/loras/server_loras.ts";
import { type ServedModel, ServedModels } from "../server/served_models.ts";
import type { Calls } from "./calls.ts";
import type { Database } from "./database.ts";
import { type RemoteEngine, remoteEngine, RemoteState } from "./remote_engine.ts";
import { roomRequest } from "./room_request.ts";
import type { FleetModel, Roster } from "./roster.ts";

/** What the models of a fleet work with. */
interface FleetModelsOptions {
  /** The shared database. */
  readonly database: Database;
  /** Who serves what. */
  readonly roster: Roster;
  /** Calls to workers. */
  readonly calls: Calls;
  /** How LoRAs are brought in where a request does not say. */
  readonly loraMergeMode: MergeMode;
}

/** A model with what is known of it. */
interface Known {
  about: FleetModel;
  readonly engine: RemoteEngine;
  readonly served: ServedModel;
  /** What is set, as the database has it. */
  kept: string | undefined;
}

/** The models of a fleet. */
export class FleetModels {
  readonly #options: FleetModelsOptions;
  readonly #known = new Map<string, Known>();
  readonly #nobody: ServedModel;
  /** The state of the first model. */
  readonly engine: EngineState;
  /** What routes see. */
  readonly served: ServedModels;

  constructor(options: FleetModelsOptions) {
    this.#options = options;
    this.engine = new RemoteState(() => this.#first?.engine);
    const loras = new ServerLoras(this.engine, NO_FILES, options.loraMergeMode);
    this.#nobody = { name: "", path: "", namedLoras: {}, engine: this.engine, loras };
    this.served = new ServedModels(() => this.#all, (name) => options.roster.isKnown(name));
  }

  /** Takes over what the roster and the settings of the fleet say now. */
  async refresh(): Promise<void> {
    for (const about of this.#options.roster.models) {
      const known = this.#known.get(about.name);
      if (known) {
        known.about = about;
        known.engine.info = about.info;
      } else this.#known.set(about.name, this.#know(about));
    }
    const rows = await this.#options.database.use((sql) =>
      sql`SELECT name, value FROM denoise_settings WHERE name LIKE 'loras:%'`
    );
    for (const row of rows) {
      const known = this.#known.get(String(row["name"]).slice("loras:".length));
      const kept = String(row["value"]);
      if (!known || known.kept === kept) continue;
      known.kept = kept;
      known.served.loras.restore(JSON.parse(kept));
    }
  }

  /**
   * The memory that a worker needs for a job.
   *
   * @param model public name; the first when left out
   * @returns bytes; 0 where each worker has them, as far as is known
   */
  async memoryFor(model: string | undefined, request: unknown): Promise<number> {
    const known = model === undefined ? this.#first : this.#known.get(model);
    return (await known?.engine.look(roomRequest(request)))?.memory ?? 0;
  }

  get #first(): Known | undefined {
    const [first] = this.#options.roster.models;
    return first && this.#known.get(first.name);
  }

  get #all(): readonly [ServedModel, ...ServedModel[]] {
    const [first, ...others] = this.#options.roster.models
      .flatMap(({ name }) => this.#known.get(name)?.served ?? []);
    return first ? [first, ...others] : [this.#nobody];
  }

  #know(about: FleetModel): Known {
    const { name } = about;
    const engine = remoteEngine(about, this.#options);
    const isServed = () => this.#options.roster.models.some((one) => one.name === name);
    const state = new RemoteState(() => isServed() ? engine : undefined);
    const now = () => this.#known.get(name)?.about ?? about;
    const files = {
      // Workers look for it, each in its own folders.
      find: (path: string) => Promise.resolve(path),
      list: () => Promise.resolve([...now().loras]),
    };
    const loras = new ServerLoras(
      state,
      files,
      this.#options.loraMergeMode,
      (kept) => this.#keep(name, JSON.stringify(kept)),
    );
    const served: ServedModel = {
      name,
      get path() {
        return now().path;
      },
      get namedLoras() {
        return Object.fromEntries(now().loras.map((lora) => [lora.name, lora.path]));
      },
      engine: state,
      loras,
    };
    return { about, engine, served, kept: undefined };
  }

  /** What is set holds for every server of the fleet. */
  async #keep(model: string, kept: string): Promise<void> {
    const known = this.#known.get(model);
    if (known) known.kept = kept;
    await this.#options.database.use(async (sql) => {
      await sql`INSERT INTO denoise_settings VALUES (${`loras:${model}`}, ${kept})
        ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value`;
      await sql`SELECT pg_notify('denoise_fleet', 'loras')`;
    });
  }
}

/** Files of a fleet without workers. */
const NO_FILES = {
  find: (path: string) => Promise.resolve(path),
  list: () => Promise.resolve([]),
};
