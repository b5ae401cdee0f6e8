/** Work that comes again and again. */

import { setTimeout as delay } from "node:timers/promises";

/** Does work again and again, each time after a pause in milliseconds, until a signal fires. */
export async function repeat(
  signal: AbortSignal,
  ms: () => number,
  work: () => Promise<unknown>,
  fail: (error: unknown) => void = () => {},
): Promise<void> {
  while (await pause(ms(), signal)) {
    try {
      await work();
    } catch (error) {
      // The database may be away; the next time comes whatever it is.
      if (!signal.aborted) fail(error);
    }
  }
}

/** Waits for a time in milliseconds; false where a signal fires first. */
export function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  return delay(ms, true, { signal }).catch(() => false);
}

/** Runs work once at a time, and once more where it is asked for meanwhile. */
export function coalesced(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let isAsked = false;
  const run = async () => {
    try {
      while (isAsked) {
        isAsked = false;
        await work();
      }
    } finally {
      running = undefined;
    }
  };
  return () => {
    isAsked = true;
    return running ??= run();
  };
}
