/**
 * Whose turn it is: clients alternate, and the jobs of one client keep their order.
 *
 * @module
 */

/** What takes a turn. */
export interface Turn {
  /** Unique. */
  readonly id: string;
  /** Whose it is. */
  readonly client: string;
  /** Public name of the model that it needs; any will do when left out. */
  readonly model?: string;
}

/** When each client was last served. */
export class Turns {
  #served = new Map<string, number>();
  #count = 0;

  /**
   * Takes out the oldest entry of the client that was served longest ago, or never.
   *
   * @param waiting entries in the order in which they came; the one that is next is removed
   * @param isReady says which of them may be next
   * @returns that one; undefined where none is ready. Where nothing waits, all that was served is
   * forgotten
   */
  take<T extends Turn>(
    waiting: T[],
    isReady: (entry: T) => boolean = () => true,
  ): T | undefined {
    if (waiting.length === 0) this.#served.clear();
    let [next, least] = [-1, Infinity];
    for (const [index, entry] of waiting.entries()) {
      const turn = this.#served.get(entry.client) ?? -1;
      if (turn < least && isReady(entry)) [next, least] = [index, turn];
    }
    if (next < 0) return undefined;
    const [entry] = waiting.splice(next, 1);
    this.#served.set(entry!.client, this.#count++);
    return entry;
  }

  /**
   * The order in which entries would be taken if no more came.
   *
   * @param waiting entries in the order in which they came
   * @returns their ids
   */
  order(waiting: readonly Turn[]): string[] {
    const ahead = new Turns();
    ahead.#served = new Map(this.#served);
    ahead.#count = this.#count;
    const left = [...waiting];
    return waiting.map(() => ahead.take(left)!.id);
  }
}
