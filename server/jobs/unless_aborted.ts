/** Giving up waiting. */

/**
 * Waits for something that does not heed a signal, or not at once.
 *
 * @param work what is waited for; what becomes of it after the signal is dropped
 * @returns what `work` gave
 * @throws what `work` threw, or the signal's reason when that came first
 */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, work]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
