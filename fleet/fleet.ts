/**
 * A process as a member of a fleet: its place in the database, and the life that it shows there.
 */

import { hostname } from "node:os";
import { version } from "../generation/version.ts";
import type { Log } from "../server/log.ts";
import { Bell } from "./bell.ts";
import { readsRoster } from "./crowd.ts";
import { Database, isAway } from "./database.ts";
import { KnownRecords } from "./known_records.ts";
import { PostgresJobStore } from "./postgres_store.ts";
import { BEAT_MS, type FleetModel, type MemberState, Roster } from "./roster.ts";
import { migrate } from "./schema.ts";

/** Beats between two times that the dead are forgotten. */
const BEATS_PER_CLEANING = 30;
/** How often it is tried to reach a database that was away at the start, in milliseconds. */
const RETRY_MS = 1000;

/** How a process joins. */
interface JoinOptions {
  /** `postgres://user:password@host/database`. */
  readonly databaseUrl: string;
  /** Whether the member takes requests, runs jobs, or both. */
  readonly kind: MemberState["kind"];
  /** Takes lines for the log. */
  readonly log: Log;
}

/** What a member says of itself beside its kind. */
type OwnState = Omit<MemberState, "version" | "kind">;

/** A front's state, as far as work is concerned. */
const NO_WORK: OwnState = {
  ...{ isDraining: false, models: [], loadedModels: [], loaded: null },
  ...{ places: 0, running: [], finished: 0, cards: [] },
};

/** A process's membership of a fleet. */
export class Fleet {
  /** A UUID. */
  readonly member: string = crypto.randomUUID();
  /** Machine and process. */
  readonly name = `${hostname()}:${Deno.pid}`;
  /** The shared database. */
  readonly database: Database;
  /** Records in it. */
  readonly store: PostgresJobStore;
  /** Tells of changes. */
  readonly bell: Bell;
  /** Who else belongs to the fleet. */
  readonly roster: Roster;
  /** What the member says of itself, and which models it serves. */
  describe: () => Promise<{ state: OwnState; models: readonly FleetModel[] }> = () =>
    Promise.resolve({ state: NO_WORK, models: [] });
  /** Called when the roster was read. */
  onRefresh: () => Promise<void> = () => Promise.resolve();
  readonly #options: JoinOptions;
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  #isReady = false;
  #isAway = false;
  #isClosed = false;
  #beats = 0;

  private constructor(database: Database, options: JoinOptions) {
    this.#options = options;
    this.database = database;
    this.bell = new Bell(options.databaseUrl, `denoise ${this.name}`);
    // Workers read each job once.
    const known = options.kind === "worker" ? undefined : new KnownRecords(this.bell);
    this.store = new PostgresJobStore(database, known);
    this.roster = new Roster(database);
    this.bell.on("denoise_fleet", () => void this.#refresh().catch(() => {}));
  }

  /**
   * Prepares to join.
   *
   * @throws {TypeError} when the address is none of a database
   */
  static async prepare(options: JoinOptions): Promise<Fleet> {
    return new Fleet(await Database.open(options.databaseUrl, "denoise"), options);
  }

  /**
   * Brings the tables up to date, and shows life from then on. A database that is away is waited for.
   *
   * @throws {Error} when the database refuses, or `first` does
   */
  async join(
    signal: AbortSignal,
    first: () => Promise<void> = () => Promise.resolve(),
  ): Promise<void> {
    while (!signal.aborted && !this.#isClosed) {
      try {
        await migrate(this.database);
        await first();
        this.#isReady = true;
        await this.beat();
        break;
      } catch (error) {
        if (!isAway(error)) throw explain(error);
        this.tellAway(error);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
    if (signal.aborted || this.#isClosed) return;
    this.bell.start();
    this.#repeat();
  }

  /** Whether the member shows life. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Says at once how it is, and looks how the others are. */
  async beat(): Promise<void> {
    if (!this.#isReady || this.#isClosed) return;
    const { kind } = this.#options;
    const { state, models } = await this.describe();
    await this.roster.beat(
      { id: this.member, name: this.name, version, kind, ...state },
      models,
    );
    if (readsRoster(this.#beats, this.roster.members.length)) await this.#refresh();
    if (this.#isAway) {
      this.#isAway = false;
      this.#options.log("The database answers again");
    }
    if (++this.#beats % BEATS_PER_CLEANING === 0) await this.roster.forget();
  }

  /** Says once that the database is away; anything else each time. */
  tellAway(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    if (!isAway(error)) this.#options.log(message, { level: "error" });
    else if (!this.#isAway) {
      this.#isAway = true;
      this.#options.log(`${message}; it is tried again`, { level: "warning" });
    }
  }

  /** Leaves, and lets go of the database. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of this.#timers) clearTimeout(timer);
    if (this.#isReady) await this.roster.leave(this.member).catch(() => {});
    await this.bell.close();
    await this.database.close();
  }

  async #refresh(): Promise<void> {
    await this.roster.refresh();
    await this.onRefresh();
  }

  #repeat(): void {
    const timer = setTimeout(async () => {
      this.#timers.delete(timer);
      try {
        await this.beat();
      } catch (error) {
        if (!this.#isClosed) this.tellAway(error);
      }
      if (!this.#isClosed) this.#repeat();
    }, BEAT_MS);
    this.#timers.add(timer);
  }
}

/** What a database refuses, in our words. */
function explain(error: unknown): unknown {
  const { code, message } = error as { code?: string; message?: string };
  if (typeof code !== "string" || message?.startsWith("Cannot ")) return error;
  return new Error(
    `Cannot use the database: ${message}; look at --database-url, and at what its user may do`,
    { cause: error },
  );
}
