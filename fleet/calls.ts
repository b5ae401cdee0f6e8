/** Questions of servers to workers, such as whether a LoRA fits a model. */

import { LoraError } from "../models/lora/lora_error.ts";
import { ApiError, type ErrorStatus, RecordsBusyError } from "../server/contract/errors.ts";
import { toApiError } from "../server/http/respond.ts";
import { unlessAborted } from "../server/jobs/job.ts";
import type { Log } from "../server/log.ts";
import type { Bell } from "./bell.ts";
import type { Database } from "./database.ts";

/** How long an answer may take, in milliseconds: a LoRA may have to be fetched, a model to be loaded. */
const PATIENCE_MS = 120_000;
/** How often it is looked for an answer of which no news came, in milliseconds. */
const LOOK_MS = 1000;

export interface Question {
  readonly method: "check_loras" | "check_room" | "load" | "unload";
  readonly model: string;
  readonly args?: unknown;
  /** Whether LoRAs that are checked are brought onto the device, too. */
  readonly isToPrepare?: boolean;
}

interface Failure {
  readonly status: number;
  readonly message: string;
  readonly code?: string;
  readonly param?: string;
  readonly problems?: readonly string[];
  /** Whether the failure is a refused LoRA: the server that asked says which field named it. */
  readonly isLora?: boolean;
}

export class Calls {
  /** Answers a question; fronts answer none. */
  reply: ((question: Question) => Promise<unknown>) | undefined;
  readonly #database: Database;
  readonly #member: string;
  readonly #log: Log;
  readonly #waiting = new Map<string, () => void>();

  constructor(database: Database, bell: Bell, member: string, log: Log) {
    this.#database = database;
    this.#member = member;
    this.#log = log;
    bell.on("denoise_calls", (news) => {
      const [what, id = ""] = news.split(" ");
      if (what === "answer") this.#waiting.get(id)?.();
      else if (id === member) void this.#answer();
    });
    bell.onUp(() => {
      for (const look of this.#waiting.values()) look();
      void this.#answer();
    });
  }

  /** @throws {ApiError} what the member failed with; {RecordsBusyError} when it does not answer within `patienceMs` milliseconds */
  async ask(member: string, question: Question, patienceMs = PATIENCE_MS): Promise<unknown> {
    const id = crypto.randomUUID();
    await this.#database.use(async (sql) => {
      await sql`INSERT INTO denoise_calls (id, member, question)
        VALUES (${id}, ${member}, ${JSON.stringify(question)}) ON CONFLICT DO NOTHING`;
      await sql`SELECT pg_notify('denoise_calls', ${`question ${member}`})`;
    });
    try {
      for (const end = performance.now() + patienceMs; performance.now() < end;) {
        const news = Promise.withResolvers<void>();
        this.#waiting.set(id, news.resolve);
        const [row] = await this.#database.run`
          SELECT answer, EXISTS (SELECT 1 FROM denoise_members WHERE id = ${member}) AS lives
          FROM denoise_calls WHERE id = ${id}`;
        if (typeof row?.["answer"] === "string") return open(row["answer"]);
        if (!row?.["lives"]) break;
        await unlessAborted(AbortSignal.timeout(LOOK_MS), news.promise).catch(() => {});
      }
    } finally {
      this.#waiting.delete(id);
      void this.#database.run`DELETE FROM denoise_calls WHERE id = ${id}`
        .catch(() => {});
    }
    throw new RecordsBusyError(
      "Cannot ask a worker of the fleet: it does not answer; try again in a few seconds",
    );
  }

  async #answer(): Promise<void> {
    const { reply } = this;
    if (!reply) return;
    try {
      const rows = await this.#database.run`
        UPDATE denoise_calls SET member = '' WHERE member = ${this.#member} AND answer IS NULL
        RETURNING id, question`;
      await Promise.all(rows.map(async ({ id, question }) => {
        const asked = JSON.parse(question) as Question;
        const answer = await reply(asked).then(
          (value) => ({ value }),
          (error) => ({ failure: pack(error, `Question ${asked.method}`, this.#log) }),
        );
        await this.#database.use(async (sql) => {
          await sql`UPDATE denoise_calls SET answer = ${JSON.stringify(answer)} WHERE id = ${id}`;
          await sql`SELECT pg_notify('denoise_calls', ${`answer ${id}`})`;
        });
      }));
    } catch {
      // The member that asked tries again.
    }
  }
}

/** A {@link Failure} for the member that asked; our own failures go to the log instead. */
function pack(thrown: unknown, what: string, log: Log): unknown {
  if (thrown instanceof LoraError) {
    const { message, problems } = thrown;
    return { status: 400, message, problems, isLora: true };
  }
  const { status, body: { error, problems } } = toApiError(thrown, what, log);
  const message = error.code === "internal_error"
    ? "Cannot answer: an internal error occurred in a worker of the fleet"
    : error.message;
  // What is undefined is not written.
  const [code, param] = [error.code ?? undefined, error.param ?? undefined];
  return { status, message, code, param, problems };
}

function open(text: string): unknown {
  const { value, failure } = JSON.parse(text) as { value?: unknown; failure?: Failure };
  if (!failure) return value;
  const { status, message, isLora, ...options } = failure;
  if (isLora) throw new LoraError(message, options.problems);
  throw new ApiError(status as ErrorStatus, message, options);
}
