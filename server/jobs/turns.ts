/** Whose turn it is: the highest priority first; clients alternate among them, and the jobs of one client keep their order. */

/** After what wait priority counts no more, in milliseconds: every job gets its turn. */
export const OVERDUE_MS = 10 * 60_000;

export interface Turn {
  /** Unique. */
  readonly id: string;
  readonly client: string;
  /** Public name of the model that it needs; any will do by default. */
  readonly model?: string;
  /** Higher goes first; 0 by default. */
  readonly priority?: number;
  /** When it came, in Unix milliseconds; now by default. */
  readonly since?: number;
}

/** When each client was last served. */
export class Turns {
  #served = new Map<string, number>();
  #count = 0;

  /** Takes the oldest ready entry of the client that was served longest ago, or never; forgets who was served where nothing waits. */
  take<T extends Turn>(
    waiting: T[],
    isReady: (entry: T) => boolean = () => true,
  ): T | undefined {
    if (waiting.length === 0) this.#served.clear();
    let [next, highest, least] = [-1, -Infinity, Infinity];
    const now = Date.now();
    for (const [index, entry] of waiting.entries()) {
      const priority = priorityAt(entry, now);
      const turn = this.#served.get(entry.client) ?? -1;
      const isBefore = priority === highest ? turn < least : priority > highest;
      if (isBefore && isReady(entry)) [next, highest, least] = [index, priority, turn];
    }
    if (next < 0) return undefined;
    const [entry] = waiting.splice(next, 1);
    this.#served.set(entry!.client, this.#count++);
    return entry;
  }

  /** The order in which entries would be taken if no more came. */
  order(waiting: readonly Turn[]): string[] {
    const ahead = new Turns();
    ahead.#served = new Map(this.#served);
    ahead.#count = this.#count;
    const left = [...waiting];
    return waiting.map(() => ahead.take(left)!.id);
  }
}

/** What was lower and has waited too long counts as anyone's. */
function priorityAt({ priority = 0, since = Infinity }: Turn, now: number): number {
  return now - since >= OVERDUE_MS ? Math.max(priority, 0) : priority;
}

export interface Places {
  /** How many jobs can run at once, of whatever kind; may change. */
  readonly count: number;
  /** Whether a job can begin now, when so many others were told that they better wait. */
  hasRoomFor(job: Turn, ahead?: number): boolean;
  take(job: Turn): () => void;
  /** Called when there may be room for a job that there was none for, besides when a place is given back. */
  onChange(listener: () => void): void;
}

/** A number of places that are all alike. */
export class EqualPlaces implements Places {
  readonly count: number;
  #taken = 0;

  constructor(count: number) {
    this.count = count;
  }

  hasRoomFor(): boolean {
    return this.#taken < this.count;
  }

  take(): () => void {
    this.#taken++;
    return () => void this.#taken--;
  }

  onChange(): void {}
}
