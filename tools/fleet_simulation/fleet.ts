/** Workers and the jobs that wait for them, as the policy sees them. */

import {
  choose,
  CLOCK_JOBS,
  clockOf,
  type FreeWorker,
  giveTurn,
  type PolicyRules,
  type WaitingJob,
} from "../../server/fleet/policy.ts";
import { hasRoom } from "../../server/fair_share.ts";
import { type Arrival, MODELS } from "./demand.ts";
import { Ordered } from "./ordered.ts";
import type { Random } from "./random.ts";

/** Rows that a worker reads of each model's queue by priority, and by turn. */
const WINDOW = 16;
const GIGABYTE = 2 ** 30;

/** How jobs get their turns. */
export type Order = "fair" | "first-come";

/** A job that waits. */
export interface SimulatedJob extends WaitingJob {
  readonly arrival: Arrival;
  passedAt: number | null;
  isGone: boolean;
  /** The last reading of a window that had it. */
  seen: number;
}

/** A worker. */
export interface SimulatedWorker {
  /** Place of the worker among all. */
  readonly index: number;
  /** Memory, in bytes. */
  readonly memory: number;
  /** Indices of the models that fit. */
  readonly models: readonly number[];
  /** Names of the models that fit. */
  readonly names: readonly string[];
  /** What is on its device. */
  loaded: { readonly model: string; readonly loras: readonly string[] } | undefined;
  /** Its place among the free ones with that model; -1 while it works. */
  place: number;
}

/** What the fleet has asked of its database. */
export interface DatabaseLoad {
  /** Readings of windows. */
  readings: number;
  /** Rows in them. */
  rows: number;
  /** Jobs that were marked as passed over. */
  marks: number;
}

/** Options of a {@link Fleet}. */
export interface FleetOptions {
  /** Memory of each worker, in GB. */
  readonly workers: readonly number[];
  /** How jobs get their turns. */
  readonly order: Order;
  /** Bounds of the policy. */
  readonly rules: PolicyRules;
  /** Most jobs that wait. */
  readonly maxQueue: number;
}

const byPriority = (a: SimulatedJob, b: SimulatedJob) =>
  a.priority !== b.priority ? a.priority > b.priority : byTurn(a, b);
const byTurn = (a: SimulatedJob, b: SimulatedJob) =>
  a.turn !== b.turn ? a.turn < b.turn : a.queuedAt < b.queuedAt;

/** The queue, and who is free. */
export class Fleet {
  /** What the database had to do. */
  readonly load: DatabaseLoad = { readings: 0, rows: 0, marks: 0 };
  /** All workers. */
  readonly workers: readonly SimulatedWorker[];
  readonly #options: FleetOptions;
  readonly #queues = MODELS.map(() => [
    new Ordered<SimulatedJob>(WINDOW, byPriority),
    new Ordered<SimulatedJob>(WINDOW, byTurn),
  ]);
  readonly #byId = new Map<string, SimulatedJob>();
  readonly #waitingOf = new Map<number, number>();
  readonly #nextTurns = new Map<number, number>();
  readonly #taken = new Map<number, number[]>();
  /** Free workers by the name of the model that they have; "" for none. */
  readonly #free = new Map<string, SimulatedWorker[]>([["", []]]);
  #freeCount = 0;
  #count = 0;
  #readings = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
    for (const { name } of MODELS) this.#free.set(name, []);
    this.workers = options.workers.map((gigabytes, index) => {
      const models = [...MODELS.keys()].filter((model) => MODELS[model]!.gigabytes <= gigabytes);
      const names = models.map((model) => MODELS[model]!.name);
      const memory = gigabytes * GIGABYTE;
      return { index, memory, models, names, loaded: undefined, place: -1 };
    });
    for (const worker of this.workers) this.free(worker);
  }

  /** How many jobs wait. */
  get waiting(): number {
    return this.#byId.size;
  }

  /** How many workers are free. */
  get idle(): number {
    return this.#freeCount;
  }

  /**
   * Queues a job.
   *
   * @param now in milliseconds
   * @returns false where it is refused
   */
  add(arrival: Arrival, now: number): boolean {
    const { client, model, loras, priority } = arrival;
    const { order, maxQueue } = this.#options;
    const own = this.#waitingOf.get(client) ?? 0;
    const isFair = order === "fair";
    if (isFair ? !hasRoom(own, this.waiting, maxQueue) : this.waiting >= maxQueue) return false;
    const clock = clockOf(this.#taken.get(priority) ?? []);
    const { seconds, gigabytes, name } = MODELS[model]!;
    const { turn, next } = giveTurn(this.#nextTurns.get(client), clock, seconds);
    this.#nextTurns.set(client, next);
    const job: SimulatedJob = {
      id: String(this.#count++),
      turn: isFair ? turn : this.#count,
      priority: isFair ? priority : 0,
      ...{ model: name, loras, memory: gigabytes * GIGABYTE, queuedAt: now, attempts: 0 },
      ...{ passedAt: null, arrival, isGone: false, seen: 0 },
    };
    this.#byId.set(job.id, job);
    this.#waitingOf.set(client, own + 1);
    for (const queue of this.#queues[model]!) queue.add(job);
    return true;
  }

  /**
   * Lets a worker choose a job.
   *
   * @param now in milliseconds
   * @returns the job, taken out of the queue; or undefined
   */
  take(worker: SimulatedWorker, now: number): SimulatedJob | undefined {
    const window = this.#window(worker);
    this.load.readings++;
    this.load.rows += window.length;
    const free: FreeWorker = {
      ...{ models: worker.names, loaded: worker.loaded, memory: worker.memory },
      warmElsewhere: worker.names.filter((name) => this.#free.get(name)!.length > 0),
    };
    const { job: id, passed } = choose(window, free, now, this.#options.rules);
    const job = id === undefined ? undefined : this.#byId.get(id);
    if (job === undefined) return undefined;
    for (const other of passed) {
      const marked = this.#byId.get(other)!;
      if (marked.passedAt === null) this.load.marks++;
      marked.passedAt ??= now;
    }
    this.#remove(job);
    const { model, loras } = job;
    if (worker.place >= 0) this.#busy(worker);
    worker.loaded = { model, loras };
    return job;
  }

  /** Says that a worker has nothing to do. */
  free(worker: SimulatedWorker): void {
    const others = this.#free.get(worker.loaded?.model ?? "")!;
    worker.place = others.length;
    others.push(worker);
    this.#freeCount++;
  }

  /**
   * A free worker that may run a model.
   *
   * @returns one; undefined where there is none
   */
  freeWorker(model: number, random: Random, isWarm: boolean): SimulatedWorker | undefined {
    if (isWarm) {
      const warm = this.#free.get(MODELS[model]!.name)!;
      return warm[random.below(warm.length)];
    }
    const places = [...this.#free.values()];
    for (let tries = 0; tries < 8 && this.#freeCount > 0; tries++) {
      let at = random.below(this.#freeCount);
      const list = places.find((workers) => (at -= workers.length) < 0)!;
      const worker = list[at + list.length]!;
      if (worker.models.includes(model)) return worker;
    }
    return places.flat().find(({ models }) => models.includes(model));
  }

  #busy(worker: SimulatedWorker): void {
    const others = this.#free.get(worker.loaded?.model ?? "")!;
    const last = others.pop()!;
    if (last !== worker) {
      others[worker.place] = last;
      last.place = worker.place;
    }
    worker.place = -1;
    this.#freeCount--;
  }

  #window(worker: SimulatedWorker): SimulatedJob[] {
    const reading = ++this.#readings;
    const window: SimulatedJob[] = [];
    for (const model of worker.models) {
      for (const queue of this.#queues[model]!) {
        for (const job of queue.first().slice(0, WINDOW)) {
          if (job.seen !== reading) window.push(job);
          job.seen = reading;
        }
      }
    }
    return window;
  }

  #remove(job: SimulatedJob): void {
    job.isGone = true;
    this.#byId.delete(job.id);
    const { client } = job.arrival;
    const left = this.#waitingOf.get(client)! - 1;
    if (left > 0) this.#waitingOf.set(client, left);
    else this.#waitingOf.delete(client);
    const taken = this.#taken.get(job.priority) ?? [];
    this.#taken.set(job.priority, taken);
    taken.push(job.turn);
    if (taken.length > CLOCK_JOBS) taken.shift();
  }
}
