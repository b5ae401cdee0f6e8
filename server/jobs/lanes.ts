/** Several outputs of one request: one after the other, or as many at once as there are cards. */

/** How many outputs there are, and how they are made. */
interface Outputs {
  /** How many. */
  readonly count: number;
  /** How many at once; 1 when left out. */
  readonly lanes?: number | undefined;
  /** Stops all of them. */
  readonly signal: AbortSignal;
}

/**
 * Makes outputs.
 *
 * @param make makes one; its signal fires, too, when another one has failed
 * @throws what the first one failed with, when the others have ended
 */
export async function inLanes<T>(
  { count, lanes = 1, signal }: Outputs,
  make: (index: number, signal: AbortSignal) => Promise<T>,
): Promise<T[]> {
  const made: T[] = [];
  if (Math.min(lanes, count) <= 1) {
    for (let index = 0; index < count; index++) made.push(await make(index, signal));
    return made;
  }
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const failures: unknown[] = [];
  let next = 0;
  const lane = async () => {
    while (next < count && failures.length === 0) {
      const index = next++;
      try {
        made[index] = await make(index, either);
      } catch (error) {
        failures.push(error);
        failed.abort(new DOMException("Another output of the request failed", "AbortError"));
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(lanes, count) }, lane));
  signal.throwIfAborted();
  if (failures.length > 0) throw failures[0];
  return made;
}
