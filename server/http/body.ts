/** Reading a JSON body without trusting it, and the memory that bodies may take. */

import { ApiError, badRequest } from "../contract/errors.ts";
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

export interface Pace {
  /** Longest pause, in milliseconds. */
  readonly idleMs: number;
  /** Time before the rate counts, in milliseconds. */
  readonly graceMs: number;
  /** Bytes per second that must come on average, from the beginning on. */
  readonly leastRate: number;
  /** Longest time for a whole body, in milliseconds. */
  readonly deadlineMs: number;
}

/** Longest time for a whole body, in milliseconds. */
export const BODY_DEADLINE_MS = 30 * 60_000;

/** Pieces that are read without a pause: other bodies keep their order as they come. */
const FREE_PIECES = 16;
/** Pieces that a body may come in, however small they are. */
const MAX_SMALL_PIECES = 10_000;
/** What a piece has to have on average where there are more of them, in bytes. */
const LEAST_PIECE = 16;

/** How long a client that still sends may pause, in milliseconds. */
const PAUSE_MS = 50;
/** How much a client that was refused is let send. */
const MAX_HEARD_BYTES = 256 * 2 ** 20;

const DEFAULT_PACE: Pace = {
  idleMs: 30_000,
  graceMs: 30_000,
  leastRate: 8 * 1024,
  deadlineMs: BODY_DEADLINE_MS,
};

/**
 * Reads a body that must keep a pace. What is not read of it is left to the HTTP server.
 *
 * @param options what differs from 30 s without a byte, 8 KiB/s on average after 30 s, 30 minutes in all
 * @returns its bytes as they come
 * @throws {ApiError} 408 when its sender is too slow, 499 when it has left, 400 when it comes in very many pieces of
 * a few bytes each
 */
export async function* readPaced(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  options: Partial<Pace> = {},
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  const { idleMs, graceMs, leastRate, deadlineMs } = { ...DEFAULT_PACE, ...options };
  const reader = body.getReader();
  const stretch = new Stretch();
  // Time that goes into writing what has come is not its sender's.
  let waitedMs = 0;
  let length = 0;
  let pieces = 0;
  try {
    for (;;) {
      const enoughMs = Math.max(graceMs, length / leastRate * 1000);
      const limits: [ms: number, why: string][] = [
        [idleMs, `nothing came for ${idleMs / 1000} s`],
        [enoughMs - waitedMs, `it comes at less than ${leastRate} bytes per second`],
        [deadlineMs - waitedMs, `it took longer than ${deadlineMs / 1000} s`],
      ];
      const [ms, why] = limits.reduce((least, limit) => limit[0] < least[0] ? limit : least);
      if (ms <= 0) throw tooSlow(why);
      const start = performance.now();
      const { done, value } = await within(ms, why, reader.read());
      if (done) return;
      waitedMs += performance.now() - start;
      length += value.length;
      if (++pieces > MAX_SMALL_PIECES && length < pieces * LEAST_PIECE) throw inPieces(pieces);
      yield value;
      // Of bodies that come faster than they are read there is always more at hand.
      if (pieces > FREE_PIECES) await stretch.pause();
    }
  } finally {
    reader.releaseLock();
  }
}

/** Throws away what comes for as long as bytes keep coming: a client that still sends does not hear the answer. */
export async function hearOut(
  chunks: AsyncGenerator<Uint8Array, void, void>,
  maxBytes: number = MAX_HEARD_BYTES,
): Promise<void> {
  for (let length = 0; length <= maxBytes;) {
    const pause = Promise.withResolvers<undefined>();
    const timer = setTimeout(() => pause.resolve(undefined), PAUSE_MS);
    const next = chunks.next().catch(() => undefined);
    const chunk = await Promise.race([next, pause.promise]).finally(() => clearTimeout(timer));
    if (!chunk?.value) return;
    length += chunk.value.length;
  }
}

async function within<T>(ms: number, why: string, read: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(tooSlow(why)), ms);
  try {
    return await Promise.race([read, late.promise]);
  } catch (error) {
    read.catch(() => {});
    throw error instanceof ApiError ? error : gone();
  } finally {
    clearTimeout(timer);
  }
}

function tooSlow(why: string): ApiError {
  return new ApiError(408, `Cannot read the body: ${why}; send the request again`, {
    code: "body_stalled",
    headers: { connection: "close" },
  });
}

function inPieces(pieces: number): ApiError {
  return new ApiError(
    400,
    `Cannot read the body: it comes in more than ${
      pieces - 1
    } pieces of less than ${LEAST_PIECE} ` +
      "bytes; send larger ones",
    { code: "body_in_pieces", headers: { connection: "close" } },
  );
}

function gone(): ApiError {
  return new ApiError(499, "Cannot read the body: the connection closed before its end", {
    code: "cancelled",
  });
}

/** How long work may go on before others have their turn, in milliseconds. */
const STRETCH_MS = 8;

/** Turns of the event loop between two that work: a request takes some until it is answered. */
const FREE_TURNS = 4;

let last: Promise<void> = Promise.resolve();

/** Waits until others were answered; of all who wait, one goes on in a turn of the event loop. */
export function nextTurn(): Promise<void> {
  return last = last.then(async () => {
    for (let turn = 0; turn < FREE_TURNS; turn++) {
      await new Promise((resolve) => setTimeout(resolve));
    }
  });
}

/** Tells work that comes in many pieces when it has gone on for long enough. */
export class Stretch {
  #since = performance.now();

  /** Goes on at once, or in the next turn when the stretch is over. */
  async pause(): Promise<void> {
    if (performance.now() - this.#since < STRETCH_MS) return;
    await nextTurn();
    this.#since = performance.now();
  }
}
