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

/** What a member says of itself; a JSON value. */
export interface MemberState {
  /** Version of the program. */
  readonly version: string;
  /** Whether the member takes requests, runs jobs, or both. */
  readonly kind: "front" | "worker" | "both";
  /** Whether the member is about to leave. */
  readonly isDraining: boolean;
  /** Names of the models that it serves. */
  readonly models: readonly string[];
  /** Models that are on a device. */
  readonly loadedModels: readonly string[];
  /** Model and LoRAs that the member's next job need not load. */
  readonly loaded: { readonly model: string; readonly loras: readonly string[] } | null;
  /** Bytes of its largest device that may be taken; absent where that is not known. */
  readonly memory?: number;
  /** How many jobs it can run at once. */
  readonly places: number;
  /** Ids of the jobs that it runs. */
  readonly running: readonly string[];
  /** Jobs that it has finished since it started. */
  readonly finished: number;
  /** What `GET /v1/workers` tells of its cards; JSON values. */
  readonly cards: readonly unknown[];
}

/** A member of a fleet. */
export interface Member extends MemberState {
  /** A UUID. */
  readonly id: string;
  /** Machine and process of the member. */
  readonly name: string;
  /** How long ago it was heard of, in milliseconds. */
  readonly silentMs: number;
}

/** A model that a fleet serves, as its workers describe it. */
export interface FleetModel {
  /** Public name of the model. */
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
  /** Members that live, the oldest first. */
  members: readonly Member[] = [];
  /** Models that are served, the oldest first. */
  models: readonly FleetModel[] = [];
  #known = new Set<string>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** Members that run jobs. */
  get workers(): readonly Member[] {
    return this.members.filter(({ kind }) => kind !== "front");
  }

  /** Whether a model was served once, and may not be now. */
  isKnown(model: string): boolean {
    return this.#known.has(model);
  }

  /** Reads who is there. */
  async refresh(): Promise<void> {
    const [members, models] = await this.#database.use((sql) =>
      Promise.all([
        sql`SELECT id, name, state,
          (extract(epoch FROM clock_timestamp() - seen_at) * 1000)::bigint AS silent
          FROM denoise_members ORDER BY joined_at, id`,
        sql`SELECT name, about,
          seen_at > clock_timestamp() - make_interval(secs => ${MODEL_GRACE_S}) AS is_served
          FROM denoise_models ORDER BY first_at, name`,
      ])
    );
    this.members = members.map(({ id, name, state, silent }) => ({
      ...JSON.parse(state) as MemberState,
      ...{ id, name, silentMs: silent },
    })).filter(({ silentMs }) => silentMs < DEAD_MS);
    this.models = models.filter((row) => row["is_served"])
      .map(({ name, about }) => ({ ...fromText(about), name }));
    this.#known = new Set(models.map(({ name }) => name));
  }

  /** Says that a member lives. */
  async beat(
    { id, name, ...state }: MemberState & Pick<Member, "id" | "name">,
    models: readonly FleetModel[],
  ): Promise<void> {
    await this.#database.use(async (sql) => {
      const [row] = await sql`INSERT INTO denoise_members (id, kind, name, state)
        VALUES (${id}, ${state.kind}, ${name}, ${JSON.stringify(state)})
        ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), state = EXCLUDED.state
        RETURNING joined_at > clock_timestamp() - interval '1 second' AS is_new`;
      for (const { name, ...about } of models) {
        await sql`INSERT INTO denoise_models (name, about) VALUES (${name}, ${toText(about)})
          ON CONFLICT (name) DO UPDATE SET seen_at = clock_timestamp(), about = EXCLUDED.about`;
      }
      if (row?.["is_new"]) await sql`SELECT pg_notify('denoise_fleet', 'joined')`;
    });
  }

  /** Says that a member leaves. */
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
