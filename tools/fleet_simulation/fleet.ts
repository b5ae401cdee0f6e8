/** Workers and the jobs that wait for them, as the policy sees them. */

import {
  choose,
  CLOCK_JOBS,
  clockOf,
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

interface SimulatedJob extends WaitingJob {
  readonly arrival: Arrival;
  readonly number: number;
  passedAt: number | null;
}

export interface SimulatedWorker {
  /** In bytes. */
  readonly memory: number;
  /** Names of the models that fit. */
  readonly models: readonly string[];
  loaded: { readonly model: string; readonly loras: readonly string[] } | undefined;
  /** Its place among the free ones; -1 while it works. */
  place: number;
}

const byTurn = (a: SimulatedJob, b: SimulatedJob) =>
  a.turn !== b.turn ? a.turn < b.turn : a.number < b.number;
const byPriority = (a: SimulatedJob, b: SimulatedJob) =>
  a.priority !== b.priority ? a.priority > b.priority : byTurn(a, b);

export class Fleet {
  readonly #policy: Policy;
  readonly #maxQueue: number;
  /** By the name of the model. */
  readonly #queues = new Map(
    MODELS.map(({ name }) => [name, [byPriority, byTurn].map((order) => new Ordered(order))]),
  );
  readonly #byId = new Map<string, SimulatedJob>();
  readonly #waitingOf = new Map<number, number>();
  readonly #nextTurns = new Map<number, number>();
  readonly #taken = new Map<number, number[]>();
  readonly #free: SimulatedWorker[] = [];
  /** How many free workers have a model loaded, by its name. */
  readonly #warm = new Map<string, number>();
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

  get waiting(): number {
    return this.#byId.size;
  }

  /** Queues a job at a time in milliseconds; false where it is refused. */
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
    const number = this.#count++;
    const job: SimulatedJob = {
      id: String(number),
      turn: isFair ? turn : number,
      priority: isFair ? priority : 0,
      model: name,
      loras,
      memory: gigabytes * GIGABYTE,
      queuedAt: now,
      attempts: 0,
      passedAt: null,
      arrival,
      number,
    };
    this.#byId.set(job.id, job);
    this.#waitingOf.set(client, own + 1);
    for (const queue of this.#queues.get(name)!) queue.add(job);
    return true;
  }

  /** Lets a worker choose a job at a time in milliseconds; the job leaves the queue. */
  take(worker: SimulatedWorker, now: number): SimulatedJob | undefined {
    const queues = worker.models.flatMap((model) => this.#queues.get(model)!);
    const window = new Set(queues.flatMap((queue) => queue.front(WINDOW)));
    const warmElsewhere = worker.models.filter((name) => this.#warm.get(name));
    const { rules } = this.#policy;
    const { job: id, passed } = choose([...window], { ...worker, warmElsewhere }, now, rules);
    const job = id === undefined ? undefined : this.#byId.get(id);
    if (job === undefined) return undefined;
    for (const other of passed) this.#byId.get(other)!.passedAt ??= now;
    this.#remove(job);
    if (worker.place >= 0) this.#busy(worker);
    worker.loaded = { model: job.model, loras: job.loras };
    return job;
  }

  free(worker: SimulatedWorker): void {
    worker.place = this.#free.push(worker) - 1;
    this.#countWarm(worker, 1);
  }

  /** A free worker that may run a model; with `isWarm`, one that has it loaded. */
  freeWorker(model: string, random: Random, isWarm: boolean): SimulatedWorker | undefined {
    if (isWarm && !this.#warm.get(model)) return undefined;
    const start = random.below(this.#free.length);
    for (let index = 0; index < this.#free.length; index++) {
      const worker = this.#free[(start + index) % this.#free.length]!;
      if (isWarm ? worker.loaded?.model === model : worker.models.includes(model)) return worker;
    }
    return undefined;
  }

  #busy(worker: SimulatedWorker): void {
    const last = this.#free.pop()!;
    if (last !== worker) this.#free[last.place = worker.place] = last;
    worker.place = -1;
    this.#countWarm(worker, -1);
  }

  #countWarm({ loaded }: SimulatedWorker, count: number): void {
    if (loaded) this.#warm.set(loaded.model, (this.#warm.get(loaded.model) ?? 0) + count);
  }

  #remove(job: SimulatedJob): void {
    this.#byId.delete(job.id);
    for (const queue of this.#queues.get(job.model)!) queue.remove(job);
    const { client } = job.arrival;
    this.#waitingOf.set(client, this.#waitingOf.get(client)! - 1);
    const taken = this.#taken.get(job.priority) ?? [];
    this.#taken.set(job.priority, taken);
    taken.push(job.turn);
    if (taken.length > CLOCK_JOBS) taken.shift();
  }
}
