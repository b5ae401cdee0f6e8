/** A process as a member of a fleet: its place in the database, and the life that it shows there. */

import { hostname } from "node:os";
import { version } from "../generation/version.ts";
import type { Log } from "../server/log.ts";
import { Bell } from "./bell.ts";
import { Calls } from "./calls.ts";
import { readsRoster } from "./crowd.ts";
import { Database, isAway } from "./database.ts";
import { PostgresJobStore } from "./postgres_store.ts";
import { pause, repeat } from "./repeat.ts";
import { BEAT_MS, type FleetModel, type Member, Roster, type WorkerState } from "./roster.ts";
import { migrate } from "./schema.ts";

/** Beats between two times that the dead are forgotten. */
const BEATS_PER_CLEANING = 30;
/** How often it is tried to reach a database that was away at the start, in milliseconds. */
const RETRY_MS = 1000;

export class Fleet {
  readonly member: string = crypto.randomUUID();
  readonly database: Database;
  readonly store: PostgresJobStore;
  readonly bell: Bell;
  readonly roster: Roster;
  readonly calls: Calls;
  readonly log: Log;
  /** What a worker says of itself, and which models it serves. */
  describe: (() => Promise<{ state: WorkerState; models: readonly FleetModel[] }>) | undefined;
  onRefresh: () => Promise<void> = () => Promise.resolve();
  readonly #kind: Member["kind"];
  readonly #name = `${hostname()}:${Deno.pid}`;
  readonly #closing = new AbortController();
  #isReady = false;
  #isAway = false;
  #beats = 0;

  /** @throws {TypeError} when it is no address of a database */
  constructor(databaseUrl: string, kind: Member["kind"], log: Log) {
    this.#kind = kind;
    this.log = log;
    this.database = new Database(databaseUrl);
    this.bell = new Bell(databaseUrl, `denoise ${this.#name}`);
    // Workers read each job once.
    this.store = new PostgresJobStore(this.database, kind === "worker" ? undefined : this.bell);
    this.roster = new Roster(this.database);
    this.calls = new Calls(this.database, this.bell, this.member, log);
    this.bell.on("denoise_fleet", () => void this.#refresh().catch(() => {}));
  }

  /** Brings the tables up to date and, when `check` is done, shows life from then on; a database that is away is waited for. */
  async join(opening: AbortSignal, check: () => Promise<void>): Promise<void> {
    const signal = AbortSignal.any([opening, this.#closing.signal]);
    do {
      try {
        await migrate(this.database);
        await check();
        this.#isReady = true;
        await this.beat();
        break;
      } catch (error) {
        if (!isAway(error)) throw explain(error);
        this.tellAway(error);
      }
    } while (await pause(RETRY_MS, signal));
    if (signal.aborted) return;
    this.bell.start();
    void repeat(this.#closing.signal, () => BEAT_MS, () => this.beat(), this.tellAway);
  }

  /** Says at once how it is, and looks how the others are. */
  async beat(): Promise<void> {
    if (!this.#isReady || this.#closing.signal.aborted) return;
    const { state, models = [] } = await this.describe?.() ?? {};
    const member = { id: this.member, version, kind: this.#kind, ...state };
    await this.roster.beat(member, this.#name, models);
    if (readsRoster(this.#beats, this.roster.size)) await this.#refresh();
    if (this.#isAway) {
      this.#isAway = false;
      this.log("The database answers again");
    }
    if (++this.#beats % BEATS_PER_CLEANING === 0) await this.roster.forget();
  }

  /** Says once that the database is away; anything else each time. */
  readonly tellAway = (error: unknown): void => {
    const message = error instanceof Error ? error.message : String(error);
    if (!isAway(error)) this.log(message, { level: "error" });
    else if (!this.#isAway) {
      this.#isAway = true;
      this.log(`${message}; it is tried again`, { level: "warning" });
    }
  };

  async close(): Promise<void> {
    this.#closing.abort();
    if (this.#isReady) await this.roster.leave(this.member).catch(() => {});
    await this.bell.close();
    await this.database.close();
  }

  async #refresh(): Promise<void> {
    await this.roster.refresh();
    await this.onRefresh();
  }
}

function explain(error: unknown): unknown {
  const { code, message } = error as { code?: string; message?: string };
  if (typeof code !== "string" || message?.startsWith("Cannot ")) return error;
  return new Error(
    `Cannot use the database: ${message}; look at --database-url, and at what its user may do`,
    { cause: error },
  );
}
