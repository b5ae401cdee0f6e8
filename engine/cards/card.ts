/** One card: what it works on, what it has done, and how long it takes. */

import type { Engine } from "../types.ts";
import type { CardPlan } from "./choose_cards.ts";

/** Where a card is: `loading` a model, at work, waiting for work, or out of use. */
export type CardState = "idle" | "busy" | "loading" | "lost";

/** What a generation needs. */
export interface Need {
  /** Public name of the model; any will do when left out. */
  readonly model?: string | undefined;
  /** Pixels times steps; the model's usual when left out. */
  readonly work?: number | undefined;
}

/** A generation under way. */
interface Run extends Need {
  readonly job: string | undefined;
  readonly since: number;
  /** Seconds that it was expected to take. */
  readonly expected: number;
  /** Whether the model had to be loaded first. */
  readonly isCold: boolean;
}

/** What is known of a model's pace on a card. */
interface Pace {
  /** Seconds for each unit of work; nothing until it is known. */
  rate?: number;
  /** Work of a usual generation. */
  work: number;
  /** Seconds that loading takes. */
  load?: number;
  /** Generations since the model was loaded: the first compiles kernels, and says nothing. */
  runs: number;
}

/** How much the latest measurement counts. */
const LATEST = 0.5;
/** Over how long a card's utilisation is told, in milliseconds. */
const WINDOW_MS = 60_000;
/** How fast weights come in until it was measured, in bytes a second. */
const LOAD_BYTES = 1e9;

/** A GPU of the server: its work, its history and its speed. */
export class Card {
  /** Number of the GPU, or of the worker where several workers share one. */
  readonly id: number;
  /** How it is opened. */
  readonly plan: CardPlan;
  /** The adapter as its driver names it. */
  name: string;
  /** Engines by their models' public names. */
  readonly models = new Map<string, Engine>();
  /** Models that are being opened, or opened again. */
  loading = 0;
  /** Whether the card gets no more work. */
  isLeftOut = false;
  /** Times that it was lost since it last did something. */
  losses = 0;
  /** Why something failed on it, most lately. */
  lastError: string | undefined;
  /** The job that it is kept for. */
  reservedFor: string | undefined;
  /** Jobs that it was kept for and that have ended. */
  jobsDone = 0;
  /** Images and videos that it made. */
  outputsDone = 0;
  readonly #now: () => number;
  readonly #openedAt: number;
  readonly #paces = new Map<string, Pace>();
  /** Times at which it was at work, the latest last. */
  readonly #busy: { from: number; to: number }[] = [];
  #run: Run | undefined;

  /**
   * @param id of the card among those of the server
   * @param now milliseconds from any moment on
   */
  constructor(id: number, plan: CardPlan, now: () => number = () => performance.now()) {
    this.id = id;
    this.plan = plan;
    this.name = plan.name;
    this.#now = now;
    this.#openedAt = now();
  }

  /** State of the card. */
  get state(): CardState {
    if (this.isLeftOut) return "lost";
    if (this.loading > 0) return "loading";
    return this.#run || this.reservedFor !== undefined ? "busy" : "idle";
  }

  /** Whether the card can get work, now or later. */
  get isUsable(): boolean {
    return !this.isLeftOut && this.models.size > 0;
  }

  /** Whether nothing runs on it, and it is not being opened again. */
  get isFree(): boolean {
    return this.#run === undefined && this.isUsable && this.loading === 0;
  }

  /** The job that it works for. */
  get job(): string | undefined {
    return this.#run?.job ?? this.reservedFor;
  }

  /** Share of the last minute in which it was at work, 0 to 1. */
  get utilisation(): number {
    const now = this.#now();
    const from = Math.max(this.#openedAt, now - WINDOW_MS);
    const running = this.#run ? [{ from: this.#run.since, to: now }] : [];
    let busy = 0;
    for (const one of [...this.#busy, ...running]) {
      busy += Math.max(0, one.to - Math.max(from, one.from));
    }
    return now > from ? Math.min(1, busy / (now - from)) : 0;
  }

  /** Whether a model that a generation needs is on the card. */
  has({ model }: Need): boolean {
    return model === undefined ? this.models.size > 0 : this.models.has(model);
  }

  /** Seconds until what runs has ended, as far as is known. */
  get remaining(): number {
    if (!this.#run) return 0;
    const elapsed = (this.#now() - this.#run.since) / 1000;
    // What takes longer than it should may take as long again.
    return elapsed < this.#run.expected ? this.#run.expected - elapsed : elapsed;
  }

  /**
   * Seconds that a generation takes here, with loading; 0 where nothing is known.
   *
   * @param others cards that are asked where this one never ran the model
   */
  expected({ model, work }: Need, others: readonly Card[]): number {
    if (model === undefined) return 0;
    const engine = this.models.get(model);
    const known = [this, ...others].flatMap((card) => card.#paces.get(model) ?? []);
    const own = this.#paces.get(model);
    const rate = own?.rate ?? mean(known.flatMap(({ rate }) => rate ?? []));
    const load = own?.load ?? mean(known.flatMap(({ load }) => load ?? [])) ??
      (engine?.info.weightBytes ?? 0) / LOAD_BYTES;
    const usual = work ?? own?.work ?? mean(known.map(({ work }) => work)) ?? 0;
    return (rate ?? 0) * usual + (engine?.isLoaded === false ? load : 0);
  }

  /** Notes that a generation begins. */
  begin(need: Need, job: string | undefined, expected: number): void {
    const isCold = need.model !== undefined && this.models.get(need.model)?.isLoaded === false;
    this.#run = { ...need, job, expected, isCold, since: this.#now() };
  }

  /**
   * Notes that it has ended.
   *
   * @param isDone whether it gave a result, whose time is measured
   */
  end(isDone: boolean): void {
    const run = this.#run;
    if (!run) return;
    this.#run = undefined;
    const to = this.#now();
    this.#busy.push({ from: run.since, to });
    while (this.#busy[0]!.to < to - WINDOW_MS) this.#busy.shift();
    if (!isDone) return;
    this.outputsDone++;
    this.losses = 0;
    if (run.model !== undefined && run.work) this.#learn(run.model, run.work, to - run.since, run);
  }

  #learn(model: string, work: number, ms: number, { isCold }: Run): void {
    const pace = this.#paces.get(model) ?? { work, runs: 0 };
    this.#paces.set(model, pace);
    pace.work += LATEST * (work - pace.work);
    const seconds = ms / 1000;
    if (isCold) {
      pace.runs = 0;
      if (pace.rate !== undefined) pace.load = Math.max(0, seconds - pace.rate * work);
    }
    if (pace.runs++ === 0) return;
    const rate = seconds / work;
    pace.rate = pace.rate === undefined ? rate : pace.rate + LATEST * (rate - pace.rate);
  }
}

function mean(values: readonly number[]): number | undefined {
  return values.length === 0
    ? undefined
    : values.reduce((sum, value) => sum + value) / values.length;
}
