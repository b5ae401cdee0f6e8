/** Questions of servers to workers, such as whether a LoRA fits a model. */

import { LoraError } from "../models/lora/lora_error.ts";
import { ApiError, type ErrorStatus, RecordsBusyError } from "../server/contract/errors.ts";
import { answerOf } from "../server/http/respond.ts";
import { ServiceError } from "../server/service_error.ts";
import type { Bell } from "./bell.ts";
import type { Database } from "./database.ts";

/** How long an answer may take, in milliseconds: a LoRA may have to be fetched, a model to be loaded. */
const PATIENCE_MS = 120_000;
/** How often it is looked for an answer of which no news came, in milliseconds. */
const LOOK_MS = 1000;

/** What is asked; a JSON value. */
export interface Question {
  /** What to do. */
  readonly method: "check_loras" | "check_room" | "load" | "unload";
  /** Public name of the model. */
  readonly model: string;
  /** Arguments of the call. */
  readonly args?: unknown;
  /** Whether LoRAs that are checked are brought onto the device, too; older workers only check them. */
  readonly isToPrepare?: boolean;
}

/** Whether a worker can hold a request; a JSON value. */
export interface RoomAnswer {
  /** Why not; absent where it can. */
  readonly refusal?: string;
  /** Bytes that it would need at least, where it is for the memory. */
  readonly needs?: number;
}

/** A failure on its way; a JSON value. */
interface Failure {
  readonly status: number;
  readonly message: string;
  readonly code: string | null;
  readonly param: string | null;
  readonly problems?: readonly string[];
  /** Whether the failure is a refused LoRA: whoever asked says which field named it. */
  readonly isLora?: boolean;
}

/** Calls between members: asks others, and answers them. */
export class Calls {
  readonly #database: Database;
  readonly #waiting = new Map<string, () => void>();

  /**
   * @param reply answers a question; those of others than workers have none
   */
  constructor(
    database: Database,
    bell: Bell,
    member: string,
    reply?: (question: Question) => Promise<unknown>,
  ) {
    this.#database = database;
    bell.on("denoise_calls", (news) => {
      const [what, id = ""] = news.split(" ");
      if (what === "answer") this.#waiting.get(id)?.();
      if (reply && what === "question" && id === member) void this.#reply(member, reply);
    });
    bell.onUp(() => {
      for (const look of this.#waiting.values()) look();
      if (reply) void this.#reply(member, reply);
    });
  }

  /**
   * Asks a member.
   *
   * @param patienceMs how long the answer may take, in milliseconds
   * @throws {ApiError} what it failed with; 503 when it does not answer
   */
  async ask(member: string, question: Question, patienceMs = PATIENCE_MS): Promise<unknown> {
    const id = crypto.randomUUID();
    await this.#database.use(async (sql) => {
      await sql`INSERT INTO denoise_calls (id, member, question)
        VALUES (${id}, ${member}, ${JSON.stringify(question)}) ON CONFLICT DO NOTHING`;
      await sql`SELECT pg_notify('denoise_calls', ${`question ${member}`})`;
    });
    try {
      for (const end = performance.now() + patienceMs; performance.now() < end;) {
        const [row] = await this.#database.use((sql) =>
          sql`SELECT answer, EXISTS (SELECT 1 FROM denoise_members WHERE id = ${member}) AS lives
            FROM denoise_calls WHERE id = ${id}`
        );
        if (typeof row?.["answer"] === "string") return open(row["answer"]);
        if (!row?.["lives"]) break;
        await this.#news(id);
      }
    } finally {
      this.#waiting.delete(id);
      void this.#database.use((sql) => sql`DELETE FROM denoise_calls WHERE id = ${id}`)
        .catch(() => {});
    }
    throw new RecordsBusyError(
      "Cannot ask a worker of the fleet: it does not answer; try again in a few seconds",
    );
  }

  /** Resolves when there may be an answer. */
  async #news(id: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.set(id, resolve);
    const timer = setTimeout(resolve, LOOK_MS);
    await promise;
    clearTimeout(timer);
  }

  async #reply(member: string, reply: (question: Question) => Promise<unknown>): Promise<void> {
    try {
      const rows = await this.#database.use((sql) =>
        sql`UPDATE denoise_calls SET member = '' WHERE member = ${member} AND answer IS NULL
          RETURNING id, question`
      );
      await Promise.all(rows.map(async (row) => {
        const id = String(row["id"]);
        const answer = await reply(JSON.parse(String(row["question"])))
          .then((value) => ({ value }), (error) => ({ failure: pack(error) }));
        await this.#database.use(async (sql) => {
          await sql`UPDATE denoise_calls SET answer = ${JSON.stringify(answer)} WHERE id = ${id}`;
          await sql`SELECT pg_notify('denoise_calls', ${`answer ${id}`})`;
        });
      }));
    } catch {
      // Whoever asked tries again.
    }
  }
}

/** What a worker failed with, for whoever asked. */
function pack(thrown: unknown): Failure {
  if (thrown instanceof LoraError) {
    const { message, problems } = thrown;
    return { status: 400, message, code: "invalid_lora", param: null, problems, isLora: true };
  }
  const error = thrown instanceof ServiceError ? answerOf(thrown) : thrown;
  if (error instanceof ApiError) {
    const { param, code, message } = error.body.error;
    const { problems } = error.body;
    return { status: error.status, message, code, param, ...(problems ? { problems } : {}) };
  }
  const message = "Cannot answer: an internal error occurred in a worker of the fleet";
  return { status: 500, message, code: "internal_error", param: null };
}

function open(text: string): unknown {
  const { value, failure } = JSON.parse(text) as { value?: unknown; failure?: Failure };
  if (!failure) return value;
  const { status, message, code, param, problems } = failure;
  if (failure.isLora) throw new LoraError(message, problems ?? []);
  throw new ApiError(status as ErrorStatus, message, {
    ...(code === null ? {} : { code }),
    ...(param === null ? {} : { param }),
    ...(problems ? { problems } : {}),
  });
}
