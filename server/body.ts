/**
 * Reading a JSON body without trusting it.
 *
 * @module
 */

import type { BodyShare } from "./body_memory.ts";
import { ApiError, badRequest } from "./contract/errors.ts";
import { readPaced } from "./inputs/pace.ts";
import { JsonTally } from "./json_tally.ts";

/** How far beyond the limit a body is read, so that its sender hears the answer. */
const DRAIN_FACTOR = 8;

/** How bodies are read. */
export interface BodyOptions {
  /** Longest body. */
  readonly maxBytes: number;
  /** Takes memory for the body. */
  readonly share?: BodyShare;
}

/**
 * Reads a JSON body.
 *
 * @param request with content type `application/json`
 * @param options how much may come
 * @returns any JSON value
 * @throws {ApiError} 415 for another content type, 413 for a body too long, 408 for one that comes too
 * slowly, 499 when its sender left, 400 for what is not JSON or has too many values, 503 when the bodies
 * of all requests take too much memory
 */
export async function readJson(request: Request, options: BodyOptions): Promise<unknown> {
  const contentType = request.headers.get("content-type") ?? "";
  if (!/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(contentType)) {
    const got = contentType ? `'${contentType.slice(0, 60)}'` : "missing";
    throw new ApiError(
      415,
      `Cannot read the body: its content type is ${got}; send application/json`,
      { code: "unsupported_media_type" },
    );
  }
  const text = await readText(request, options);
  if (text === "") {
    throw badRequest("Cannot read the body: it is empty", undefined, "invalid_json");
  }
  return parseJson(text);
}

/**
 * Reads a body as JSON whatever content type it has, as `curl -d` sends another one.
 *
 * @param request of any content type
 * @param options how much may come
 * @returns any JSON value; an empty object for an empty body
 * @throws {ApiError} as {@link readJson} does, but never for the content type
 */
export async function readAnyJson(request: Request, options: BodyOptions): Promise<unknown> {
  const text = await readText(request, options);
  return text === "" ? {} : parseJson(text);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message.slice(0, 200) : "it is malformed";
    throw badRequest(`Cannot read the body as JSON: ${why}`, undefined, "invalid_json");
  }
}

/** The body as text, decoded as it comes. */
async function readText(request: Request, { maxBytes, share }: BodyOptions): Promise<string> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > maxBytes * DRAIN_FACTOR) throw tooLarge(maxBytes);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const tally = new JsonTally();
  let text = "";
  let length = 0;
  let refusal: ApiError | undefined;
  // A client that still sends does not listen: what is refused is read, and thrown away.
  for await (const chunk of request.body ? readPaced(request.body) : []) {
    length += chunk.length;
    if (length > maxBytes) refusal = tooLarge(maxBytes);
    if (length > maxBytes * DRAIN_FACTOR) break;
    if (!refusal) {
      share?.grow(length);
      const excess = tally.add(chunk);
      if (excess !== undefined) refusal = tooMany(excess);
      text += decode(decoder, chunk) ?? (refusal ??= notUtf8(), "");
    }
    if (refusal) text = "";
  }
  refusal ??= decode(decoder) === undefined ? notUtf8() : undefined;
  if (refusal) throw refusal;
  return text;
}

/** The next characters, or the end; undefined where the bytes are none. */
function decode(decoder: TextDecoder, chunk?: Uint8Array<ArrayBuffer>): string | undefined {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined });
  } catch {
    return undefined;
  }
}

function notUtf8(): ApiError {
  return badRequest("Cannot read the body: it is not UTF-8", undefined, "invalid_json");
}

function tooMany(why: string): ApiError {
  return badRequest(`Cannot read the body: ${why}`, undefined, "invalid_json");
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError(413, `Cannot read the body: it is longer than ${maxBytes} bytes`, {
    code: "body_too_large",
  });
}
