/** Reading a JSON body without trusting it, and the memory that bodies may take. */

import { ApiError, badRequest } from "../contract/errors.ts";
import { hearOut, nextTurn, readPaced } from "./pace.ts";
import { JsonTally } from "../contract/json.ts";
import { Shares } from "../fair_share.ts";

/** Length from which on a text is parsed in a turn of its own. */
const LONG = 2 ** 20;

interface BodyOptions {
  readonly maxBytes: number;
  /** Takes memory for the body. */
  readonly share?: BodyShare;
}

/** A body must come as it is: nobody would know how much a compressed one holds. @throws {ApiError} 415 */
export function checkEncoding({ headers }: Request): void {
  const encoding = headers.get("content-encoding")?.trim() ?? "";
  if (/^(?:identity)?$/i.test(encoding)) return;
  throw new ApiError(
    415,
    `Cannot read the body: its content encoding is '${
      encoding.slice(0, 60)
    }'; send it uncompressed`,
    { code: "unsupported_encoding", headers: { "accept-encoding": "identity" } },
  );
}

/**
 * Reads a JSON body.
 *
 * @param request with content type `application/json`
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
  if (text === "") throw invalid("Cannot read the body: it is empty");
  return await parseJson(text, request.signal);
}

/** Reads JSON whatever content type it has, as `curl -d` sends another one; an empty body is an empty object. */
export async function readAnyJson(request: Request, options: BodyOptions): Promise<unknown> {
  const text = await readText(request, options);
  return text === "" ? {} : await parseJson(text, request.signal);
}

/** Long texts hold up everybody while they are parsed, so never two of them at a stretch. */
async function parseJson(text: string, signal: AbortSignal): Promise<unknown> {
  if (text.length >= LONG) {
    await nextTurn();
    signal.throwIfAborted();
  }
  return parse(text);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message.slice(0, 200) : "it is malformed";
    throw invalid(`Cannot read the body as JSON: ${why}`);
  }
}

/** The body as text, decoded as it comes. */
async function readText(request: Request, { maxBytes, share }: BodyOptions): Promise<string> {
  const chunks = request.body ? readPaced(request.body) : undefined;
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const tally = new JsonTally();
  let text = "";
  let length = 0;
  try {
    const declared = Number(request.headers.get("content-length") ?? 0);
    if (declared > maxBytes) throw tooLarge(maxBytes);
    for (;;) {
      const { done, value: chunk } = await chunks?.next() ?? { done: true };
      if (done || !chunk) return text + decode(decoder);
      if ((length += chunk.length) > maxBytes) throw tooLarge(maxBytes);
      share?.grow(length);
      const excess = tally.add(chunk);
      if (excess !== undefined) throw invalid(`Cannot read the body: ${excess}`);
      text += decode(decoder, chunk);
    }
  } catch (error) {
    text = "";
    if (chunks) await hearOut(chunks);
    throw error;
  } finally {
    // Where a piece is still awaited, this comes after it.
    chunks?.return().catch(() => {});
  }
}

/** The next characters, or the end. */
function decode(decoder: TextDecoder, chunk?: Uint8Array<ArrayBuffer>): string {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined });
  } catch {
    throw invalid("Cannot read the body: it is not UTF-8");
  }
}

function invalid(message: string): ApiError {
  return badRequest(message, undefined, "invalid_json");
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError(413, `Cannot read the body: it is longer than ${maxBytes} bytes`, {
    code: "body_too_large",
  });
}

/** Bytes of each body that do not count: most bodies are no longer, and those are never refused. */
const FREE_BYTES = 64 * 1024;

/** Share of the memory that one client's bodies may have: whoever sends slowly holds it for half an hour. */
const SHARE_OF_ONE = 0.75;

/** What the bodies of all requests share. */
export class BodyMemory {
  readonly #maxBytes: number;
  readonly #held = new Shares();

  /** @param maxBytes most bytes of all bodies together */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get heldBytes(): number {
    return this.#held.all;
  }

  /** The part of one request, which has to be released. */
  open(client: string): BodyShare {
    let length = 0;
    let isReleased = false;
    const counted = () => Math.max(0, length - FREE_BYTES);
    const release = () => {
      if (!isReleased) this.#held.add(client, -counted());
      isReleased = true;
    };
    return {
      grow: (bytes) => {
        const before = counted();
        length = Math.max(length, bytes);
        const more = counted() - before;
        if (isReleased || more === 0) return;
        this.#held.add(client, more);
        const isOfOne = this.#held.of(client) > this.#maxBytes * SHARE_OF_ONE;
        if (this.#held.all <= this.#maxBytes && !isOfOne) return;
        // At once, so that the others may go on.
        release();
        throw tooMany();
      },
      release,
    };
  }
}

/** The part of one request. */
export interface BodyShare {
  /** @throws {ApiError} 503 when all bodies together hold too much; this one counts no more then */
  grow(bytes: number): void;
  /** Gives all of it back; may be called more than once. */
  release(): void;
}

function tooMany(): ApiError {
  return new ApiError(
    503,
    "Cannot read the body: too many large ones come at the same time; send it again in a while",
    { code: "too_many_bodies", headers: { "retry-after": "5" } },
  );
}
