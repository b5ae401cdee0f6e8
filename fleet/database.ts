/** The PostgreSQL database that the servers and workers of a fleet share. */

import { setTimeout as delay } from "node:timers/promises";
import postgres, { type ParameterOrFragment, type Row, type RowList, type Sql } from "postgres";
import { RecordsBusyError } from "../server/contract/errors.ts";

/** Most connections of one process, beside the one that listens. */
const MAX_CONNECTIONS = 8;
const CONNECT_S = 5;
/** Longest pause before a connection is tried again, in seconds. */
const MAX_BACKOFF_S = 0.3;
/** Pause before a statement is tried again, in milliseconds. */
const PAUSE_MS = 150;
/** How long a statement may take, in milliseconds; the server ends it then. */
const STATEMENT_MS = 30_000;

/** PostgreSQL's number of the type text[]. */
const TEXTS = 1009;

/** What the system says of a connection that is not there. */
const GONE =
  /^(?:CONNECTION_|CONNECT_TIMEOUT|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOST|ENET)/;
/** SQLSTATE of a server that is not at hand: lost, out of resources, starting, stopping, a standby; or of transactions that met. */
const BUSY = /^(?:08...|53...|57P0[1-4]|25006|40001|40P01)$/;

/** Runs statements; where the database is not at hand, it throws {@link RecordsBusyError}. */
export class Database {
  readonly #sql: Sql;

  /** No connection is made before the first statement. @throws {TypeError} when `url` is no address of a database */
  constructor(url: string, name = "denoise") {
    this.#sql = connect(url, { max: MAX_CONNECTIONS, name });
  }

  /**
   * Runs statements, and tries again while the database is not at hand.
   *
   * @param work one attempt, which may be made again although it was made already
   * @param patienceMs for how long attempts begin, in milliseconds; a second one is always made
   * @throws {RecordsBusyError} when none did; what `work` throws otherwise
   */
  async use<T>(work: (sql: Sql) => Promise<T>, patienceMs = 0): Promise<T> {
    const end = performance.now() + patienceMs;
    for (let attempt = 1;; attempt++) {
      try {
        return await work(this.#sql);
      } catch (error) {
        if (!isAway(error)) throw error;
        if (attempt > 1 && performance.now() + PAUSE_MS > end) throw awayError(error);
      }
      await delay(PAUSE_MS);
    }
  }

  run<T extends readonly object[] = Row[]>(
    text: TemplateStringsArray,
    ...values: ParameterOrFragment<never>[]
  ): Promise<RowList<T>> {
    return this.use((sql) => sql<T>(text, ...values));
  }

  transaction<T>(work: (sql: Sql) => Promise<T>, patienceMs = 0): Promise<T> {
    return this.use(
      (sql) => sql.begin((inside) => work(inside as unknown as Sql)) as Promise<T>,
      patienceMs,
    );
  }

  async close(): Promise<void> {
    await this.#sql.end({ timeout: 2 }).catch(() => {});
  }
}

export function connect(
  url: string,
  { max, name, onclose, onnotify }: {
    max: number;
    name: string;
    onclose?: () => void;
    onnotify?: (channel: string, news: string) => void;
  },
): Sql {
  if (!/^postgres(?:ql)?:\/\//.test(url) || !URL.canParse(url)) {
    throw new TypeError(
      "Cannot use the database: its address is not like postgres://user:password@host/database",
    );
  }
  return postgres(url, {
    max,
    connect_timeout: CONNECT_S,
    onnotice: () => {},
    backoff: (attempt: number) => Math.min(0.1 * attempt, MAX_BACKOFF_S),
    connection: { application_name: name, statement_timeout: STATEMENT_MS },
    // Asking for the types that there are would go on beside the end of a connection, and fail unheard.
    fetch_types: false,
    types: {
      bigint: { to: 20, from: [20], serialize: String, parse: Number },
      texts: { to: TEXTS, from: [], serialize: toArray, parse: String },
    },
    ...(onclose ? { onclose } : {}),
    // Known to the connections, but not to the types.
    ...(onnotify ? { onnotify, idle_timeout: null, max_lifetime: null } as object : {}),
  }) as unknown as Sql;
}

/** A list as PostgreSQL writes arrays. */
function toArray(list: readonly string[]): string {
  return `{${list.map((text) => `"${text.replace(/[\\"]/g, "\\$&")}"`).join()}}`;
}

/** Whether it is the database that is not at hand, and not the statement that is wrong. */
export function isAway(error: unknown): boolean {
  if (error instanceof RecordsBusyError) return true;
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" && (GONE.test(code) || BUSY.test(code));
}

export function awayError(cause?: unknown): RecordsBusyError {
  return new RecordsBusyError(
    "Cannot use the records of jobs: the database does not answer; try again in a few seconds",
    { cause },
  );
}
