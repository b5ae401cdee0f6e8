/** Giving up on clients that send too slowly or have left; letting other requests have their turn. */

import { ApiError } from "../contract/errors.ts";

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
