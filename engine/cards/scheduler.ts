/**
 * The cards of a server, shared by jobs and models: each job has a card of its own while it runs, and takes further cards
 * that nobody waits for.
 */

import { DeviceLostError } from "../../runtime/mod.ts";
import { Card, type CardEngine, type Demand } from "./card.ts";
import { likelyBytes } from "./card_memory.ts";
import type { CardPlan } from "./choose_cards.ts";
import { ScheduledModel } from "./scheduled_model.ts";

interface Waiter extends Demand {
  readonly grant: (card: Card) => void;
  readonly refuse: (error: Error) => void;
}

export interface Work<T> extends Demand {
  readonly model: string;
  readonly run: (card: Card) => Promise<T>;
  /** Whether it can be run a second time. */
  readonly canRepeat: () => boolean;
}

interface SchedulerOptions {
  readonly onNote?: ((line: string) => void) | undefined;
  /** Whether several models share each card. */
  readonly isShared?: boolean;
  /** Milliseconds from any moment on. */
  readonly now?: () => number;
  readonly sleep?: (ms: number) => Promise<void>;
}

export interface ModelSource {
  readonly name: string;
  /** Cards that the model may be on; at least one. */
  readonly on: readonly Card[];
  readonly open: (card: Card) => Promise<CardEngine>;
  readonly isLoaded?: boolean;
}

/** Losses in a row after which a card is no longer used. */
const MAX_LOSSES = 3;
/** How long a lost card is left alone, in milliseconds; four times as long after each further loss. */
const REOPEN_MS = 1000;
/** How much later a generation may end than elsewhere: times vary, and a card that waits helps nobody. */
const SLACK = 1.5;
/** After how long it is looked again whether to wait for a faster card, in milliseconds. */
const LOOK_MS = 500;

/** Errors that say something of a card, and not of a request. */
const GPU_ERRORS: ReadonlySet<string> = new Set([
  "DeviceLostError",
  "GpuValidationError",
  "OutOfMemoryError",
]);

export class Scheduler {
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

  constructor(
    plans: readonly CardPlan[],
    {
      onNote = () => {},
      isShared = false,
      now = () => performance.now(),
      sleep = sleepQuietly,
    }: SchedulerOptions = {},
  ) {
    const areDistinct = new Set(plans.map(({ gpu }) => gpu)).size === plans.length;
    this.all = plans.map((plan, i) =>
      new Card(areDistinct ? plan.gpu : i, plan, { onNote, isShared, now })
    );
    this.#onNote = onNote;
    this.#sleep = sleep;
  }

  /**
   * Opens a model: on one card first, which brings its files here and measures kernels; on the others while the first one
   * works.
   */
  async open(source: ModelSource): Promise<ScheduledModel> {
    const { name, on } = source;
    const left = [...on];
    const failures: unknown[] = [];
    // A card with another model goes on working.
    const loading = new Set(on.filter(({ models }) => models.size === 0));
    for (const card of loading) card.loading++;
    const open = (card: Card) =>
      this.#open(card, source).finally(() => {
        if (loading.has(card)) card.loading--;
        this.#changed();
      });
    while (!on.some((card) => card.models.has(name))) {
      const card = left.shift();
      if (!card) throw failures[0];
      await open(card).catch((error) => failures.push(error));
    }
    const rest = Promise.all(left.map((card) => open(card).catch(() => {})));
    return new ScheduledModel(this, name, on, rest.then(() => {}));
  }

  async #open(card: Card, { name, on, open, isLoaded }: ModelSource): Promise<void> {
    try {
      const engine = await open(card);
      if (this.#isClosed) return await engine.close();
      card.add(name, engine);
      if (isLoaded) await card.load(name);
      this.#learnName(card, engine.adapter);
      if (on.length > 1) this.#onNote(`GPU ${card.id} (${card.name}) has ${name}`);
    } catch (error) {
      card.models.delete(name);
      card.lastError = (error as Error).message;
      if (on.length > 1 && !this.#isClosed) {
        this.#onNote(`Cannot use GPU ${card.id} (${card.name}) for ${name}: ${card.lastError}`);
        if (card.models.size === 0) card.isLeftOut = true;
      }
      throw error;
    }
  }

  /** Closes a model on all cards, when what runs on them is done. */
  async remove(name: string): Promise<void> {
    await Promise.all(this.all.map((card) => card.remove(name)));
    this.#changed();
  }

  #learnName(card: Card, adapter: string | undefined): void {
    if (!adapter) return;
    const { name } = card.plan;
    if (name !== "" && name !== adapter) {
      this.#onNote(`GPU ${card.id} was to be ${name}, but the driver gave ${adapter}`);
    }
    card.name = adapter;
  }

  /** Bytes that the card with the most memory will give, about; nothing where nobody tells. */
  get likelyBytes(): number | undefined {
    const known = this.all.flatMap(({ name }) => likelyBytes(name) ?? []);
    return known.length > 0 ? Math.max(...known) : undefined;
  }

  /** How many jobs can run at once; at least one, which says what is wrong where no card is left. */
  get count(): number {
    return Math.max(1, this.all.filter(({ isUsable }) => isUsable).length);
  }

  /** Whether a job can begin now. */
  hasRoomFor({ model }: { readonly model?: string }, ahead = 0): boolean {
    return this.#choose({ model: this.#known(model) }, ahead) !== undefined ||
      // It says what is wrong.
      (this.#reserved.size === 0 && this.all.every(({ isUsable }) => !isUsable));
  }

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
      this.#changed();
    };
  }

  /** Calls back when a card may be free that was not. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /**
   * Runs work on the card where it ends first, once that is free. Work whose card is lost runs again on another one, once;
   * work that does not fit goes to a card with more memory.
   */
  async run<T>(work: Work<T>): Promise<T> {
    const { signal, job, model } = work;
    const excluded = new Set<Card>();
    for (let losses = 0;;) {
      const card = await this.#acquire({ ...work, excluded });
      let isDone = false;
      try {
        const result = await work.run(card);
        isDone = true;
        return result;
      } catch (error) {
        if (signal?.aborted || !(error instanceof Error)) throw error;
        if (GPU_ERRORS.has(error.name)) card.lastError = error.message;
        const isLost = error.name === "DeviceLostError";
        if (isLost) void this.#lose(card, error, model);
        excluded.add(card);
        const isElsewhere = this.#candidates({ model, excluded })
          .some(({ plan }) => isLost || plan.memoryBytes > card.plan.memoryBytes);
        const isOver = isLost ? ++losses > 1 : !isRefusal(error);
        if (isOver || !isElsewhere || !work.canRepeat()) throw error;
        this.#onNote(
          isLost
            ? `${job ?? "A request"} is begun again on another GPU`
            : `${job ?? "A request"} does not fit GPU ${card.id}, and goes to a larger one`,
        );
      } finally {
        card.end(isDone);
        this.#changed();
      }
    }
  }

  #acquire(demand: Demand): Promise<Card> {
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
        grant: (card) => (leave(), resolve(card)),
        refuse: (error) => (leave(), reject(error)),
      };
      const onAbort = () => waiter.refuse(signal!.reason);
      signal?.addEventListener("abort", onAbort);
      this.#waiting.push(waiter);
      this.#serve();
    });
  }

  /** Opens a lost card again, or leaves it out after several losses in a row. */
  async #lose(card: Card, error: Error, model: string): Promise<void> {
    card.lastError = error.message;
    card.losses++;
    // The next request opens the last one.
    if (this.all.every((other) => other === card || !other.isUsable)) return;
    if (card.reservedFor !== undefined) {
      // Its job goes on with the next free card.
      this.#reserved.set(card.reservedFor, undefined);
      card.reservedFor = undefined;
    }
    if (card.losses >= MAX_LOSSES) return this.#leaveOut(card);
    card.loading++;
    this.#onNote(`GPU ${card.id} (${card.name}) was lost, and is started again: ${error.message}`);
    await this.#sleep(REOPEN_MS * 4 ** (card.losses - 1));
    try {
      if (this.#isClosed) return;
      await card.load(model);
      this.#onNote(`GPU ${card.id} (${card.name}) is back`);
    } catch (error) {
      if (!this.#isClosed) void this.#lose(card, error as Error, model);
    } finally {
      card.loading--;
      this.#changed();
    }
  }

  #leaveOut(card: Card): void {
    card.isLeftOut = true;
    const others = this.all.filter(({ isUsable }) => isUsable).length;
    this.#onNote(
      `GPU ${card.id} (${card.name}) is left out until the server starts again: ` +
        `it was lost ${card.losses} times; ${others} ${others === 1 ? "goes" : "go"} on`,
    );
    this.#changed();
  }

  /** Gives what is free to those who wait: jobs whose card was lost, jobs of the queue, then further outputs of jobs. */
  #changed(): void {
    this.#serve((waiter) => this.#cardOf(waiter) === undefined);
    for (const listener of this.#listeners) listener();
    this.#serve();
  }

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

  #grant(waiter: Waiter, card: Card): void {
    const { job } = waiter;
    const isDisplaced = job !== undefined && this.#reserved.has(job) && !this.#reserved.get(job);
    if (isDisplaced) this.#reserve(card, job);
    card.begin(waiter, card.expected(waiter, this.all));
    waiter.grant(card);
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
    this.#changed();
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

function isRefusal({ name }: Error): boolean {
  return name === "RangeError" || name === "OutOfMemoryError";
}

/** Keeps no process. */
function sleepQuietly(ms: number): Promise<void> {
  return new Promise((resolve) => Deno.unrefTimer(setTimeout(resolve, ms)));
}
