/** Workers and the jobs that wait for them, as the policy sees them. */

import {
  choose,
  CLOCK_JOBS,
  clockOf,
  type FreeWorker,
  giveTurn,
  type PolicyRules,
  type WaitingJob,
} from "../../fleet/policy.ts";
import { hasRoom } from "../../server/fair_share.ts";
import { type Arrival, MODELS } from "./demand.ts";
import { Ordered } from "./ordered.ts";
import type { Random } from "./random.ts";

/** Rows that a worker reads of each model's queue by priority, and by turn. */
const WINDOW = 16;
const GIGABYTE = 2 ** 30;

/** How jobs are given to workers. */
export interface Policy {
  readonly name: string;
  readonly isFair: boolean;
  /** Bounds of affinity. */
  readonly rules: PolicyRules;
}

/** A job that waits. */
interface SimulatedJob extends WaitingJob {
  readonly arrival: Arrival;
  passedAt: number | null;
  isGone: boolean;
}

/** A worker. */
export interface SimulatedWorker {
  /** In bytes. */
  readonly memory: number;
  /** Names of the models that fit. */
  readonly models: readonly string[];
  loaded: { readonly model: string; readonly loras: readonly string[] } | undefined;
  /** Its place among the free ones with that model; -1 while it works. */
  place: number;
}

const byPriority = (a: SimulatedJob, b: SimulatedJob) =>
  a.priority !== b.priority ? a.priority > b.priority : byTurn(a, b);
const byTurn = (a: SimulatedJob, b: SimulatedJob) =>
  a.turn !== b.turn ? a.turn < b.turn : a.queuedAt < b.queuedAt;

/** The queue, and who is free. */
export class Fleet {
  readonly #policy: Policy;
  readonly #maxQueue: number;
  /** By the name of the model. */
  readonly #queues = new Map(
    MODELS.map(({ name }) => [
      name,
      [byPriority, byTurn].map((order) => new Ordered<SimulatedJob>(WINDOW, order)),
    ]),
  );
  readonly #byId = new Map<string, SimulatedJob>();
  readonly #waitingOf = new Map<number, number>();
  readonly #nextTurns = new Map<number, number>();
  readonly #taken = new Map<number, number[]>();
  /** Free workers by the name of the model that they have; "" for none. */
  readonly #free = new Map<string, SimulatedWorker[]>(
    ["", ...MODELS.map(({ name }) => name)].map((name) => [name, []]),
  );
  #freeCount = 0;
  #count = 0;

  /** Workers that have nothing loaded, by their memory in GB. */
  constructor(workers: readonly number[], policy: Policy, maxQueue: number) {
    this.#policy = policy;
    this.#maxQueue = maxQueue;
    for (const size of workers) {
      const models = MODELS.filter(({ gigabytes }) => gigabytes <= size).map(({ name }) => name);
      this.free({ memory: size * GIGABYTE, models, loaded: undefined, place: -1 });
    }
  }

  /** How many jobs wait. */
  get waiting(): number {
    return this.#byId.size;
  }

  /**
   * Queues a job.
   *
   * @param now in milliseconds
   * @returns false where it is refused
   */
  add(arrival: Arrival, now: number): boolean {
    const { client, loras, priority } = arrival;
    const { isFair } = this.#policy;
    const own = this.#waitingOf.get(client) ?? 0;
    const limit = this.#maxQueue;
    if (isFair ? !hasRoom(own, this.waiting, limit) : this.waiting >= limit) return false;
    const clock = clockOf(this.#taken.get(priority) ?? []);
    const { seconds, gigabytes, name } = arrival.model;
    const { turn, next } = giveTurn(this.#nextTurns.get(client), clock, seconds);
    this.#nextTurns.set(client, next);
    const job: SimulatedJob = {
      id: String(this.#count++),
      turn: isFair ? turn : this.#count,
      priority: isFair ? priority : 0,
      ...{ model: name, loras, memory: gigabytes * GIGABYTE, queuedAt: now, attempts: 0 },
      ...{ passedAt: null, arrival, isGone: false },
    };
    this.#byId.set(job.id, job);
    this.#waitingOf.set(client, own + 1);
    for (const queue of this.#queues.get(name)!) queue.add(job);
    return true;
  }

  /**
   * Lets a worker choose a job, which leaves the queue.
   *
   * @param now in milliseconds
   */
  take(worker: SimulatedWorker, now: number): SimulatedJob | undefined {
    const queues = worker.models.flatMap((model) => this.#queues.get(model)!);
    const window = new Set(queues.flatMap((queue) => queue.first().slice(0, WINDOW)));
    const free: FreeWorker = {
      ...worker,
      warmElsewhere: worker.models.filter((name) => this.#free.get(name)!.length > 0),
    };
    const { job: id, passed } = choose([...window], free, now, this.#policy.rules);
    const job = id === undefined ? undefined : this.#byId.get(id);
    if (job === undefined) return undefined;
    for (const other of passed) this.#byId.get(other)!.passedAt ??= now;
    this.#remove(job);
    if (worker.place >= 0) this.#busy(worker);
    worker.loaded = { model: job.model, loras: job.loras };
    return job;
  }

  /** Says that a worker has nothing to do. */
  free(worker: SimulatedWorker): void {
    const others = this.#free.get(worker.loaded?.model ?? "")!;
    worker.place = others.length;
    others.push(worker);
    this.#freeCount++;
  }

  /** A free worker that may run a model; with `isWarm`, one that has it loaded. */
  freeWorker(model: string, random: Random, isWarm: boolean): SimulatedWorker | undefined {
    if (isWarm) {
      const warm = this.#free.get(model)!;
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

  #remove(job: SimulatedJob): void {
    job.isGone = true;
    this.#byId.delete(job.id);
    const { client } = job.arrival;
    this.#waitingOf.set(client, this.#waitingOf.get(client)! - 1);
    const taken = this.#taken.get(job.priority) ?? [];
    this.#taken.set(job.priority, taken);
    taken.push(job.turn);
    if (taken.length > CLOCK_JOBS) taken.shift();
  }
}
