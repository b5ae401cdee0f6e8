/** How much may go on at once, and whose turn it is. */

import { AsyncLocalStorage } from "node:async_hooks";

/** Says for whom all that is done within it is done. */
export const onBehalfOf: AsyncLocalStorage<string> = new AsyncLocalStorage<string>();

export class BusyError extends Error {
  override readonly name = "BusyError";
}

interface SlotLimits {
  readonly count: number;
  /** Most works of one client at once; as many as there are by default. */
  readonly perClient?: number;
  /** Largest sum of their weights; a work that is heavier by itself runs alone. */
  readonly weight?: number;
  /** Most works that wait; half of them may be one client's. */
  readonly waiting?: number;
}

interface SlotOptions {
  /** Share of {@link SlotLimits.weight} that the task takes; 0 by default. */
  readonly weight?: number | undefined;
  /** Takes it out of the line. */
  readonly signal?: AbortSignal | undefined;
  /** Whose work it is; that of {@link onBehalfOf} by default. */
  readonly client?: string | undefined;
}

interface Entry {
  readonly weight: number;
  readonly client: string;
  readonly start: () => void;
}

/** Works that share what there is: clients take turns, and the works of one keep the order in which they came. */
export class Slots {
  readonly #limits: Required<SlotLimits>;
  readonly #line: Entry[] = [];
  readonly #running = new Map<string, number>();
  #count = 0;
  #weight = 0;
  /** When each client had its last turn, for as long as somebody waits or it is at work. */
  readonly #served = new Map<string, number>();
  #turn = 0;

  constructor(limits: SlotLimits) {
    this.#limits = { perClient: Infinity, weight: Infinity, waiting: Infinity, ...limits };
  }

  async run<T>(work: () => Promise<T>, options: SlotOptions = {}): Promise<T> {
    const { weight = 0, signal, client = onBehalfOf.getStore() ?? "" } = options;
    const { promise, resolve } = Promise.withResolvers<void>();
    const entry = { weight, client, start: resolve };
    await this.#enter(entry, promise, signal);
    try {
      return await work();
    } finally {
      this.#account(entry, -1);
      this.#startNext();
      if (this.#line.length === 0) this.#forget();
    }
  }

  async #enter(entry: Entry, started: Promise<void>, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    this.#line.push(entry);
    this.#startNext();
    this.#checkLine(entry);
    const { promise, reject } = Promise.withResolvers<void>();
    const leave = () => {
      if (!remove(this.#line, entry)) return;
      reject(signal!.reason);
      // What was behind may be light enough.
      this.#startNext();
    };
    signal?.addEventListener("abort", leave);
    try {
      await Promise.race([started, promise]);
    } finally {
      signal?.removeEventListener("abort", leave);
    }
  }

  #checkLine(entry: Entry): void {
    const { waiting } = this.#limits;
    if (waiting === Infinity || !this.#line.includes(entry)) return;
    const own = this.#line.filter(({ client }) => client === entry.client).length;
    const isFull = this.#line.length > waiting;
    if (!isFull && own <= Math.max(1, waiting / 2)) return;
    remove(this.#line, entry);
    throw new BusyError(isFull ? `${waiting} wait already` : `${own - 1} of yours wait already`);
  }

  #startNext(): void {
    const { count, weight } = this.#limits;
    for (let next = this.#next(); next; next = this.#next()) {
      const isFull = this.#count >= count ||
        (this.#count > 0 && this.#weight + next.weight > weight);
      if (isFull) return;
      remove(this.#line, next);
      this.#account(next, 1);
      this.#served.set(next.client, this.#turn++);
      next.start();
    }
  }

  #account({ client, weight }: Entry, sign: 1 | -1): void {
    this.#count += sign;
    this.#weight += sign * weight;
    const running = (this.#running.get(client) ?? 0) + sign;
    if (running > 0) this.#running.set(client, running);
    else this.#running.delete(client);
  }

  #forget(): void {
    for (const client of this.#served.keys()) {
      if (!this.#running.has(client)) this.#served.delete(client);
    }
  }

  /** The first work of the client whose last turn is longest ago. */
  #next(): Entry | undefined {
    let next: Entry | undefined;
    let least = Infinity;
    for (const entry of this.#line) {
      const turn = this.#served.get(entry.client) ?? -1;
      if (turn >= least) continue;
      if ((this.#running.get(entry.client) ?? 0) >= this.#limits.perClient) continue;
      [next, least] = [entry, turn];
    }
    return next;
  }
}

function remove(entries: Entry[], entry: Entry): boolean {
  const index = entries.indexOf(entry);
  if (index >= 0) entries.splice(index, 1);
  return index >= 0;
}
