/**
 * Requests that are sent again with the same `Idempotency-Key`: they make one job, and all of them are answered with it.
 *
 * Source: draft-ietf-httpapi-idempotency-key-header-07; `idempotent-replayed` is Stripe's.
 */

import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import type { Context } from "hono";
import { ApiError, badRequest, wasDeleted } from "../contract/errors.ts";
import type { UploadedFile } from "../inputs/multipart.ts";
import {
  type JobRecord,
  type RepeatedRequest,
  RepeatedRequestError,
  type RequestKey,
} from "./job_store.ts";
import type { AppEnv, Services } from "../services.ts";

/** Longest key, in characters; as Stripe's. */
const MAX_LENGTH = 255;

/** Undefined where the client gave no key. @throws {ApiError} 400 for one that is empty or too long, and where no results are kept */
export async function requestKeyOf(
  c: Context<AppEnv>,
  { storage }: Pick<Services, "storage">,
  body: unknown,
  files: readonly UploadedFile[] = [],
): Promise<RequestKey | undefined> {
  const sent = c.req.header("idempotency-key");
  if (sent === undefined) return undefined;
  const key = unquoted(sent.trim());
  if (key === "" || key.length > MAX_LENGTH) {
    throw badRequest(
      `Cannot use an Idempotency-Key of ${key.length} characters: it has 1 to ${MAX_LENGTH}`,
      "Idempotency-Key",
    );
  }
  if (!storage) {
    throw badRequest(
      "Cannot answer a request twice: this server keeps no results (its output path is empty); " +
        "send it without Idempotency-Key",
      "Idempotency-Key",
      "no_storage",
    );
  }
  const digest = createHash("sha256");
  add(digest, [c.req.path, body]);
  for (const { field, path } of files) {
    add(digest, field);
    const ofFile = createHash("sha256");
    for await (const bytes of createReadStream(path)) ofFile.update(bytes);
    digest.update(ofFile.digest());
  }
  return {
    key: createHash("sha256").update(JSON.stringify([c.get("client"), key])).digest("base64url"),
    body: digest.digest("base64url"),
  };
}

/**
 * Answers a request with the job that it made when it was sent before, or makes one.
 *
 * @param ways how a job is made, which throws {@link RepeatedRequestError} where another request was quicker, and how a job
 * that is there is answered with
 * @throws {ApiError} 422 when the key is that of another request
 */
export async function once(
  c: Context<AppEnv>,
  { store }: Pick<Services, "store">,
  key: RequestKey | undefined,
  { make, repeat }: {
    readonly make: () => Promise<Response>;
    readonly repeat: (job: JobRecord) => Promise<Response>;
  },
): Promise<Response> {
  if (!key) return await make();
  let repeated: RepeatedRequest | undefined = await store.findRepeated(key.key);
  if (!repeated) {
    try {
      return await make();
    } catch (error) {
      if (!(error instanceof RepeatedRequestError)) throw error;
      repeated = error.repeated;
    }
  }
  if (repeated.body !== key.body) {
    throw new ApiError(
      422,
      `Cannot use the Idempotency-Key for another request: its first one made ${repeated.id}; ` +
        "take a new key for each request",
      { param: "Idempotency-Key", code: "idempotency_key_reused" },
    );
  }
  const job = await store.get(repeated.id);
  if (!job) throw wasDeleted(repeated.id);
  c.set("job", job.id);
  c.get("share").release();
  c.header("idempotent-replayed", "true");
  return await repeat(job);
}

/** The draft has keys in quotes, and most clients send them without. */
function unquoted(key: string): string {
  const [, inside] = /^"((?:[^"\\]|\\["\\])*)"$/.exec(key) ?? [];
  return inside === undefined ? key : inside.replace(/\\(.)/g, "$1");
}

/** Adds a JSON value; the order of its fields does not count. */
function add(digest: Hash, value: unknown): void {
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).sort(([one], [other]) => one < other ? -1 : 1);
    digest.update(`${Array.isArray(value) ? "[" : "{"}${entries.length}`);
    for (const [name, item] of entries) {
      add(digest, name);
      add(digest, item);
    }
  } else {
    const text = String(value);
    digest.update(`${typeof value} ${text.length} `).update(text);
  }
}
