/** A fleet through a day, event by event, on the policy that the fleet runs. */

import { DEFAULT_RULES, type PolicyRules } from "../../server/fleet/policy.ts";
import { CLIENT_CLASSES, Demand, LORA_SECONDS, meanSeconds, MODELS } from "./demand.ts";
import { Fleet, type Order, type SimulatedWorker } from "./fleet.ts";
import { Heap } from "./ordered.ts";
import { Random } from "./random.ts";
import { Shares } from "./shares.ts";
import { Times } from "./statistics.ts";

/** Memory of cards, in GB, by their share of the workers. */
const CARDS = [24, 24, 24, 48, 48, 48, 48, 80, 80, 80];
/** How long a stretch is in which what each client got is compared, in seconds. */
const STRETCH = 600;

/** How jobs are given to workers. */
export interface Policy {
  /** Name in reports. */
  readonly name: string;
  /** How jobs get their turns. */
  readonly order: Order;
  /** Bounds of affinity. */
  readonly rules: PolicyRules;
}

const NO_AFFINITY: PolicyRules = { ...DEFAULT_RULES, patienceMs: 0, loraPatienceMs: 0, holdMs: 0 };

/** The policy of the fleet, and what it is compared with. */
export const POLICIES: readonly Policy[] = [
  { name: "the fleet's policy", order: "fair", rules: DEFAULT_RULES },
  { name: "turns without affinity", order: "fair", rules: NO_AFFINITY },
  { name: "first come, first served", order: "first-come", rules: NO_AFFINITY },
];

/** The size of a simulation. */
export interface SimulationOptions {
  /** Number of workers. */
  readonly workers: number;
  /** Number of clients. */
  readonly clients: number;
  /** Hours from midnight. */
  readonly hours: number;
  /** GPU time that is asked for over a day, as a share of what the workers have. */
  readonly load: number;
  /** Most jobs that wait, for each worker. */
  readonly queuePerWorker: number;
  /** Repeats a day. */
  readonly seed: number;
}

/** Events per second, on average and in the busiest minute. */
export interface Rate {
  /** Mean over the whole time. */
  readonly mean: number;
  /** Value of the minute that had most. */
  readonly most: number;
}

/** What a day was like. */
export interface Outcome {
  /** Jobs that were taken. */
  readonly jobs: number;
  /** Requests that found no room. */
  readonly refused: number;
  /** Waits of each class of clients, in seconds. */
  readonly waits: readonly {
    readonly name: string;
    readonly jobs: number;
    readonly times: Times;
  }[];
  /** Share of refused requests by class of clients. */
  readonly refusals: readonly number[];
  /** How often a model was loaded. */
  readonly switches: number;
  /** How often LoRAs were set anew, with the same model. */
  readonly loraSwitches: number;
  /** Share of the workers' time in jobs. */
  readonly useful: number;
  /** Share of the workers' time in loading. */
  readonly loading: number;
  /** Jain's index of what clients got, by what was fair, while jobs waited throughout. */
  readonly fairness: number;
  /** Minutes in which jobs waited throughout. */
  readonly crowdedMinutes: number;
  /** Most jobs that waited. */
  readonly longestQueue: number;
  /** What the database did. */
  readonly database: Readonly<Record<"inserts" | "claims" | "readings" | "rows" | "marks", Rate>>;
  /** Free workers that a message to all of them would wake for a job. */
  readonly wakesPerJob: number;
}

/** Runs a fleet. */
export function simulate(policy: Policy, options: SimulationOptions): Outcome {
  const { workers, clients, hours, load, queuePerWorker, seed } = options;
  const rate = load * workers / meanSeconds();
  const demand = new Demand({ seed, clients, rate });
  const random = new Random(seed + 1);
  const fleet = new Fleet({
    workers: Array.from({ length: workers }, (_, index) => CARDS[index % CARDS.length]!),
    order: policy.order,
    rules: policy.rules,
    maxQueue: queuePerWorker * workers,
  });
  const ends = new Heap<{ readonly at: number; readonly worker: SimulatedWorker }>((a, b) =>
    a.at < b.at
  );
  const waits = CLIENT_CLASSES.map(({ name }) => ({ name, jobs: 0, times: new Times() }));
  const asked = CLIENT_CLASSES.map(() => ({ all: 0, refused: 0 }));
  const shares = new Shares(clients, STRETCH);
  const counts = { inserts: 0, claims: 0, readings: 0, rows: 0, marks: 0 };
  const rates = new Rates(counts);
  let [useful, loading, switches, loraSwitches, refused, longestQueue, woken] = Array(7).fill(0);
  const end = hours * 3600;

  const offer = (worker: SimulatedWorker, now: number): boolean => {
    const { loaded } = worker;
    const job = fleet.take(worker, now * 1000);
    if (job === undefined) return false;
    const { arrival: { model, seconds, client }, loras, queuedAt } = job;
    const isOtherModel = job.model !== loaded?.model;
    const areOtherLoras = loras.join() !== (isOtherModel ? "" : loaded.loras.join());
    if (isOtherModel) switches++;
    else if (areOtherLoras) loraSwitches++;
    const extra = (isOtherModel ? MODELS[model]!.loadSeconds : 0) +
      (areOtherLoras ? LORA_SECONDS : 0);
    loading += Math.min(extra, end - now);
    useful += Math.min(seconds, Math.max(end - now - extra, 0));
    const wait = waits[classOf(client)]!;
    wait.jobs++;
    wait.times.add(now - queuedAt / 1000);
    shares.got(client, MODELS[model]!.seconds);
    counts.claims++;
    ends.push({ at: now + extra + seconds, worker });
    return true;
  };

  let next = demand.after(0);
  for (let now = 0; now < end;) {
    const done = ends.first;
    now = Math.min(next, done?.at ?? Infinity);
    if (now >= end) break;
    Object.assign(counts, fleet.load);
    rates.until(now);
    shares.until(now, fleet.waiting > 0);
    if (done !== undefined && done.at <= next) {
      ends.pop();
      if (!offer(done.worker, now)) fleet.free(done.worker);
      continue;
    }
    for (const arrival of demand.arrivals()) {
      const group = asked[classOf(arrival.client)]!;
      group.all++;
      shares.wanted(arrival.client, MODELS[arrival.model]!.seconds);
      woken += fleet.idle;
      if (!fleet.add(arrival, now * 1000)) {
        refused++;
        group.refused++;
        shares.wanted(arrival.client, -MODELS[arrival.model]!.seconds);
        continue;
      }
      counts.inserts++;
      longestQueue = Math.max(longestQueue, fleet.waiting);
      // Any free worker may ask first; the policy makes those wait that would have to load.
      const first = fleet.freeWorker(arrival.model, random, false);
      if (first === undefined || offer(first, now)) continue;
      const warm = fleet.freeWorker(arrival.model, random, true);
      if (warm !== undefined) offer(warm, now);
    }
    next = demand.after(now);
  }
  const jobs = counts.claims;
  return {
    ...{ jobs, refused, waits, switches, loraSwitches, longestQueue },
    refusals: asked.map(({ all, refused }) => all > 0 ? refused / all : 0),
    useful: useful / (workers * end),
    loading: loading / (workers * end),
    fairness: shares.fairness,
    crowdedMinutes: shares.crowdedSeconds / 60,
    database: rates.rates(end),
    wakesPerJob: woken / Math.max(jobs + refused, 1),
  };
}

function classOf(client: number): number {
  return CLIENT_CLASSES.findIndex(({ upTo }) => client < upTo);
}

/** Counts of a minute. */
class Rates<T extends Record<string, number>> {
  readonly #counts: T;
  #before: T;
  readonly #most: Record<string, number> = {};
  #minute = 0;

  constructor(counts: T) {
    this.#counts = counts;
    this.#before = { ...counts };
  }

  /** Ends the minutes before a time. */
  until(now: number): void {
    const minute = Math.floor(now / 60);
    if (minute === this.#minute) return;
    for (const [name, count] of Object.entries(this.#counts)) {
      const perSecond = (count - this.#before[name]!) / 60;
      this.#most[name] = Math.max(this.#most[name] ?? 0, perSecond);
    }
    this.#before = { ...this.#counts };
    this.#minute = minute;
  }

  rates(seconds: number): Record<keyof T, Rate> {
    return Object.fromEntries(
      Object.entries(this.#counts).map(([name, count]) => [
        name,
        { mean: count / seconds, most: this.#most[name] ?? 0 },
      ]),
    ) as Record<keyof T, Rate>;
  }
}
