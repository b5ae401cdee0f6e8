/**
 * Reading a JSON body without trusting it.
 *
 * @module
 */

import { ApiError, badRequest } from "./contract/errors.ts";
import { limitIdle } from "./inputs/idle.ts";

/** How far beyond the limit a body is read, so that its sender hears the answer. */
const DRAIN_FACTOR = 8;

/**
 * Reads a JSON body.
 *
 * @param request with content type `application/json`
 * @param maxBytes longest body
 * @returns any JSON value
 * @throws {ApiError} 415 for another content type, 413 for a body too long, 408 for one whose sender
 * pauses, 400 for what is not JSON
 */
export async function readJson(request: Request, maxBytes: number): Promise<unknown> {
  const contentType = request.headers.get("content-type") ?? "";
  if (!/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(contentType)) {
    const got = contentType ? `'${contentType.slice(0, 60)}'` : "missing";
    throw new ApiError(
      415,
      `Cannot read the body: its content type is ${got}; send application/json`,
      { code: "unsupported_media_type" },
    );
  }
  const bytes = await readBytes(request, maxBytes);
  if (bytes.length === 0) {
    throw badRequest("Cannot read the body: it is empty", undefined, "invalid_json");
  }
  return parseJson(bytes);
}

/**
 * Reads a body as JSON whatever content type it has, as `curl -d` sends another one.
 *
 * @param request of any content type
 * @param maxBytes longest body
 * @returns any JSON value; an empty object for an empty body
 * @throws {ApiError} as {@link readJson} does, but never for the content type
 */
export async function readAnyJson(request: Request, maxBytes: number): Promise<unknown> {
  const bytes = await readBytes(request, maxBytes);
  return bytes.length === 0 ? {} : parseJson(bytes);
}

function parseJson(bytes: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw badRequest("Cannot read the body: it is not UTF-8", undefined, "invalid_json");
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message.slice(0, 200) : "it is malformed";
    throw badRequest(`Cannot read the body as JSON: ${why}`, undefined, "invalid_json");
  }
}

async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > maxBytes * DRAIN_FACTOR) throw tooLarge(maxBytes);
  const chunks: Uint8Array[] = [];
  let length = 0;
  // A client that still sends does not listen: what is too long is read, and thrown away.
  for await (const chunk of request.body ? limitIdle(request.body) : []) {
    length += chunk.length;
    if (length <= maxBytes) chunks.push(chunk);
    else chunks.length = 0;
    if (length > maxBytes * DRAIN_FACTOR) break;
  }
  if (length > maxBytes) throw tooLarge(maxBytes);
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError(413, `Cannot read the body: it is longer than ${maxBytes} bytes`, {
    code: "body_too_large",
  });
}
