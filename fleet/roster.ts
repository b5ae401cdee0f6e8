/** Who belongs to a fleet, and which models it serves. */

import type { ModelInfo } from "../engine/types.ts";
import type { Database } from "./database.ts";

/** How often a member says that it lives, in milliseconds. */
export const BEAT_MS = 2000;
/** After what silence a member is taken for dead, in milliseconds. */
export const DEAD_MS = 10_000;
/** How long a model is still known after its last worker has gone, in seconds: one may be starting again. */
const MODEL_GRACE_S = 60;
/** How long the dead are listed, in seconds. */
const FORGET_S = 5 * 60;

/** What a worker says of itself; a JSON value. */
export interface WorkerState {
  readonly isDraining: boolean;
  readonly models: readonly string[];
  readonly loadedModels: readonly string[];
  /** Model and LoRAs that its next job need not load. */
  readonly loaded: { readonly model: string; readonly loras: readonly string[] } | null;
  /** Bytes of its largest device that may be taken; absent where that is not known. */
  readonly memory?: number;
  readonly places: number;
  readonly running: readonly string[];
  /** What `GET /v1/workers` tells of its cards; JSON values. */
  readonly cards: readonly unknown[];
}

export interface Member {
  readonly id: string;
  readonly version: string;
  readonly kind: "front" | "worker" | "both";
}

export type Worker = Member & WorkerState;

export interface FleetModel {
  readonly name: string;
  /** Path of the model, as given when the worker was started. */
  readonly path: string;
  readonly info: ModelInfo;
  /** LoRAs that clients can name in one word. */
  readonly loras: readonly { readonly name: string; readonly path: string }[];
}

/** The members and models, as they were a moment ago. */
export class Roster {
  readonly #database: Database;
  size = 0;
  /** Members that run jobs, the oldest first. */
  workers: readonly Worker[] = [];
  /** Models that are served, the oldest first. */
  models: readonly FleetModel[] = [];
  #known = new Set<string>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** Whether a model was served once, and may not be now. */
  isKnown(model: string): boolean {
    return this.#known.has(model);
  }

  async refresh(): Promise<void> {
    const [members, models] = await this.#database.use((sql) =>
      Promise.all([
        sql`SELECT kind, state FROM denoise_members
          WHERE seen_at > clock_timestamp() - make_interval(secs => ${DEAD_MS / 1000})
          ORDER BY joined_at, id`,
        sql`SELECT name, about,
          seen_at > clock_timestamp() - make_interval(secs => ${MODEL_GRACE_S}) AS is_served
          FROM denoise_models ORDER BY first_at, name`,
      ])
    );
    this.size = members.length;
    this.workers = members.filter(({ kind }) => kind !== "front")
      .map(({ state }) => JSON.parse(state));
    this.models = models.filter((row) => row["is_served"])
      .map(({ name, about }) => ({ ...fromText(about), name }));
    this.#known = new Set(models.map(({ name }) => name));
  }

  async beat(member: Member, name: string, models: readonly FleetModel[]): Promise<void> {
    const { id, kind } = member;
    await this.#database.use(async (sql) => {
      const [row] = await sql`INSERT INTO denoise_members (id, kind, name, state)
        VALUES (${id}, ${kind}, ${name}, ${JSON.stringify(member)})
        ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), state = EXCLUDED.state
        RETURNING joined_at > clock_timestamp() - interval '1 second' AS is_new`;
      for (const { name, ...about } of models) {
        await sql`INSERT INTO denoise_models (name, about) VALUES (${name}, ${toText(about)})
          ON CONFLICT (name) DO UPDATE SET seen_at = clock_timestamp(), about = EXCLUDED.about`;
      }
      if (row?.["is_new"]) await sql`SELECT pg_notify('denoise_fleet', 'joined')`;
    });
  }

  async leave(id: string): Promise<void> {
    await this.#database.use(async (sql) => {
      await sql`DELETE FROM denoise_members WHERE id = ${id}`;
      await sql`SELECT pg_notify('denoise_fleet', 'left')`;
    });
  }

  /** Forgets members that died long ago, and questions that nobody waits for any more. */
  async forget(): Promise<void> {
    await this.#database.use(async (sql) => {
      const then = sql`clock_timestamp() - make_interval(secs => ${FORGET_S})`;
      await sql`DELETE FROM denoise_members WHERE seen_at < ${then}`;
      await sql`DELETE FROM denoise_calls WHERE asked_at < ${then}`;
    });
  }
}

/** JSON, in which a model may be without a bound. */
function toText(value: unknown): string {
  return JSON.stringify(value, (_, part) => part === Infinity ? { "∞": 1 } : part);
}

function fromText(text: string): Omit<FleetModel, "name"> {
  return JSON.parse(
    text,
    (_, part) => part && typeof part === "object" && "∞" in part ? Infinity : part,
  );
}
