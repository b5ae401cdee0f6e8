/**
 * The cards of a server, shared by jobs: each job has a card of its own while it runs, and takes further ones that nobody
 * waits for.
 */

import { DeviceLostError } from "../../runtime/mod.ts";
import { Card, type Need } from "./card.ts";
import type { CardPlan } from "./choose_cards.ts";

/** A generation that needs a card. */
export interface Demand extends Need {
  /** The job that it is a part of. */
  readonly job?: string | undefined;
  /** Cards that it cannot be made on. */
  readonly excluded?: ReadonlySet<Card>;
  /** Gives up waiting. */
  readonly signal?: AbortSignal | undefined;
}

/** A card for one generation. */
export interface Lease {
  readonly card: Card;
  /** Gives it back; says whether there is a result. */
  readonly end: (isDone: boolean) => void;
}

interface Waiter extends Demand {
  readonly grant: (lease: Lease) => void;
  readonly refuse: (error: Error) => void;
}

/** Losses in a row after which a card is left out. */
const MAX_LOSSES = 3;
/** How long a lost card is left alone, in milliseconds; four times as long after each further loss. */
const REOPEN_MS = 1000;
/** How much later a generation may end than elsewhere: times vary, and a card that waits helps nobody. */
const SLACK = 1.5;
/** After how long it is looked again whether to wait for a faster card, in milliseconds. */
const LOOK_MS = 500;

/** The GPUs of a server, which jobs share. */
export class Cards {
  /** All cards, in the order of their numbers; at least one. */
  readonly all: readonly Card[];
  readonly #onNote: (line: string) => void;
  readonly #sleep: (ms: number) => Promise<void>;
  /** Cards of jobs by id; nothing where it was lost. */
  readonly #reserved = new Map<string, Card | undefined>();
  readonly #waiting: Waiter[] = [];
  readonly #listeners: (() => void)[] = [];
  #isLooking = false;
  #isClosed = false;

  /**
   * @param clock milliseconds from any moment on, and what lets some pass
   */
  constructor(
    plans: readonly CardPlan[],
    onNote: (line: string) => void = () => {},
    { now, sleep = sleepQuietly }: { now?: () => number; sleep?: (ms: number) => Promise<void> } =
      {},
  ) {
    const areDistinct = new Set(plans.map(({ gpu }) => gpu)).size === plans.length;
    this.all = plans.map((plan, i) => new Card(areDistinct ? plan.gpu : i, plan, now));
    this.#onNote = onNote;
    this.#sleep = sleep;
  }

  /** How many jobs can run at once; at least one, which says what is wrong where no card is left. */
  get count(): number {
    return Math.max(1, this.all.filter(({ isUsable }) => isUsable).length);
  }

  /**
   * Whether a job can begin now.
   *
   * @param ahead how many jobs wait for a faster card already
   */
  hasRoomFor({ model }: { readonly model?: string }, ahead = 0): boolean {
    return this.#choose({ model: this.#known(model) }, ahead) !== undefined ||
      // It says what is wrong.
      (this.#reserved.size === 0 && this.all.every(({ isUsable }) => !isUsable));
  }

  /** Keeps a card for a job. */
  take({ id, model }: { readonly id: string; readonly model?: string }): () => void {
    const card = this.#choose({ model: this.#known(model) }, Infinity);
    if (!card) return () => {};
    this.#reserve(card, id);
    return () => {
      const last = this.#reserved.get(id);
      this.#reserved.delete(id);
      if (last) {
        last.reservedFor = undefined;
        last.jobsDone++;
      }
      this.changed();
    };
  }

  /** Calls back when a card may be free that was not. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /**
   * Waits for a card: that of the job, or another that nobody needs.
   *
   * @throws {DeviceLostError} when no card is left
   * @throws the signal's reason when it fires
   */
  acquire(demand: Demand): Promise<Lease> {
    return new Promise((resolve, reject) => {
      const { signal } = demand;
      signal?.throwIfAborted();
      const leave = () => {
        signal?.removeEventListener("abort", onAbort);
        const index = this.#waiting.indexOf(waiter);
        if (index >= 0) this.#waiting.splice(index, 1);
      };
      const waiter: Waiter = {
        ...demand,
        grant: (lease) => (leave(), resolve(lease)),
        refuse: (error) => (leave(), reject(error)),
      };
      const onAbort = () => waiter.refuse(signal!.reason);
      signal?.addEventListener("abort", onAbort);
      this.#waiting.push(waiter);
      this.#serve();
    });
  }

  /**
   * Notes that a card was lost. It is opened again, and after several losses in a row left out, unless it is the last.
   */
  lose(card: Card, error: Error, reopen: () => Promise<void>): void {
    card.lastError = error.message;
    card.losses++;
    const isLast = this.all.every((other) => other === card || !other.isUsable);
    // The next request opens it.
    if (isLast) return;
    this.#displace(card);
    if (card.losses >= MAX_LOSSES) return this.leaveOut(card, `it was lost ${card.losses} times`);
    card.loading++;
    this.#onNote(`GPU ${card.id} (${card.name}) was lost, and is started again: ${error.message}`);
    void this.#bringBack(card, reopen);
  }

  async #bringBack(card: Card, reopen: () => Promise<void>): Promise<void> {
    await this.#sleep(REOPEN_MS * 4 ** (card.losses - 1));
    try {
      if (this.#isClosed) return;
      await reopen();
      this.#onNote(`GPU ${card.id} (${card.name}) is back`);
    } catch (error) {
      if (!this.#isClosed) this.lose(card, error as Error, reopen);
    } finally {
      card.loading--;
      this.changed();
    }
  }

  /** Gives a card no more work. */
  leaveOut(card: Card, why: string): void {
    card.isLeftOut = true;
    const others = this.all.filter(({ isUsable }) => isUsable).length;
    this.#onNote(
      `GPU ${card.id} (${card.name}) is left out until the server starts again: ${why}; ` +
        `${others} ${others === 1 ? "goes" : "go"} on`,
    );
    this.changed();
  }

  /** Gives what is free to those who wait: jobs whose card was lost, jobs of the queue, then further outputs of jobs. */
  changed(): void {
    this.#serve((waiter) => this.#cardOf(waiter) === undefined);
    for (const listener of this.#listeners) listener();
    this.#serve();
  }

  /** Opens nothing any more. */
  close(): void {
    this.#isClosed = true;
  }

  #serve(isMeant: (waiter: Waiter) => boolean = () => true): void {
    let ahead = 0;
    for (
      const waiter of this.#waiting.filter(isMeant).sort((a, b) => this.#held(a) - this.#held(b))
    ) {
      const own = this.#cardOf(waiter);
      const isOwnFree = own?.isFree && own.has(waiter) && !waiter.excluded?.has(own);
      const card = isOwnFree ? own : this.#choose(waiter, ahead);
      if (card) this.#grant(waiter, card);
      else if (this.#candidates(waiter).length === 0 && !this.#isComing(waiter)) {
        waiter.refuse(new DeviceLostError("Cannot generate: no GPU is left that has the model"));
      } else ahead++;
    }
  }

  #reserve(card: Card, job: string): void {
    card.reservedFor = job;
    this.#reserved.set(job, card);
  }

  /** Takes a card from its job, which goes on with the next free one. */
  #displace(card: Card): void {
    if (card.reservedFor === undefined) return;
    this.#reserved.set(card.reservedFor, undefined);
    card.reservedFor = undefined;
  }

  #grant(waiter: Waiter, card: Card): void {
    const { job } = waiter;
    const isDisplaced = job !== undefined && this.#reserved.has(job) && !this.#reserved.get(job);
    if (isDisplaced) this.#reserve(card, job);
    card.begin(waiter, waiter.job, card.expected(waiter, this.all));
    waiter.grant({
      card,
      end: (isDone) => {
        card.end(isDone);
        this.changed();
      },
    });
  }

  /** The card that is kept for a job, where it can be used. */
  #cardOf({ job }: Demand): Card | undefined {
    return job === undefined ? undefined : this.#reserved.get(job);
  }

  /** How many cards work for the job already. */
  #held({ job }: Demand): number {
    return job === undefined
      ? 0
      : this.all.filter((card) => !card.isFree && card.job === job).length;
  }

  /** The free card on which a generation ends first; nothing where it ends sooner on one that is at work. */
  #choose(demand: Demand, ahead: number): Card | undefined {
    const candidates = this.#candidates(demand);
    let [best, least] = [undefined as Card | undefined, Infinity];
    for (const card of candidates) {
      if (!card.isFree || card.reservedFor !== undefined) continue;
      const seconds = card.expected(demand, this.all);
      if (seconds < least) [best, least] = [card, seconds];
    }
    if (!best || ahead === Infinity) return best;
    const others = candidates.filter((card) => !card.isFree || card.reservedFor !== undefined);
    if (least <= SLACK * this.#endElsewhere(demand, others, ahead)) return best;
    if (!this.#isLooking) void this.#lookAgain();
    return undefined;
  }

  async #lookAgain(): Promise<void> {
    this.#isLooking = true;
    await this.#sleep(LOOK_MS);
    this.#isLooking = false;
    this.changed();
  }

  /** When a generation would end on cards that are at work, after those that wait for them already. */
  #endElsewhere(demand: Demand, cards: readonly Card[], ahead: number): number {
    const ends = cards.map((card) => ({
      free: card.remaining,
      each: card.expected(demand, this.all),
    }));
    let end = Infinity;
    for (let i = 0; i <= Math.min(ahead, this.all.length * 64) && ends.length > 0; i++) {
      const next = ends.reduce((a, b) => (a.free + a.each <= b.free + b.each ? a : b));
      end = next.free += next.each;
    }
    return end;
  }

  #candidates(demand: Demand): Card[] {
    return this.all.filter((card) =>
      card.isUsable && card.has(demand) && !demand.excluded?.has(card)
    );
  }

  /** Whether a card is being opened that may have the model then. */
  #isComing({ excluded }: Demand): boolean {
    return this.all.some((card) => !card.isLeftOut && card.loading > 0 && !excluded?.has(card));
  }

  /** A model that no card has is for its job to complain about. */
  #known(model: string | undefined): string | undefined {
    return this.all.some((card) => card.has({ model })) ? model : undefined;
  }
}

/** Keeps no process. */
function sleepQuietly(ms: number): Promise<void> {
  return new Promise((resolve) => Deno.unrefTimer(setTimeout(resolve, ms)));
}
