/** Places that each client may have while there is room at all. */
const ALWAYS = 8;

/**
 * Whether a client gets another of places that all share: beyond the first few, one may have as many as there are left.
 * So one that floods the server gets half of them, two get a third each, and there is room for who comes next.
 *
 * @returns false where a request is to be refused
 */
export function hasRoom(own: number, all: number, most: number): boolean {
  return all < most && own < Math.max(most - all, ALWAYS);
}

export class Shares {
  readonly #byClient = new Map<string, number>();
  all = 0;

  /** Places that a client has. */
  of(client: string): number {
    return this.#byClient.get(client) ?? 0;
  }

  /** Takes places for a client, or gives them back where the number is negative. */
  add(client: string, count: number): void {
    const own = this.of(client) + count;
    this.all += count;
    if (own > 0) this.#byClient.set(client, own);
    else this.#byClient.delete(client);
  }
}
