/** A fleet through a day, event by event, on the policy that the fleet runs. */

import { DEFAULT_RULES, type PolicyRules } from "../../fleet/policy.ts";
import { CLIENT_CLASSES, Demand, LORA_SECONDS, MEAN_SECONDS } from "./demand.ts";
import { Fleet, type Policy, type SimulatedWorker } from "./fleet.ts";
import { Ordered } from "./ordered.ts";
import { Random } from "./random.ts";
import { Shares } from "./shares.ts";

/** Memory of cards, in GB, by their share of the workers. */
const CARDS = [24, 24, 24, 48, 48, 48, 48, 80, 80, 80];
const NO_AFFINITY: PolicyRules = { ...DEFAULT_RULES, patienceMs: 0, loraPatienceMs: 0, holdMs: 0 };

/** The policy of the fleet, and what it is compared with. */
export const POLICIES: readonly Policy[] = [
  { name: "the fleet's policy", isFair: true, rules: DEFAULT_RULES },
  { name: "turns without affinity", isFair: true, rules: NO_AFFINITY },
  { name: "first come, first served", isFair: false, rules: NO_AFFINITY },
];

export interface SimulationOptions {
  readonly workers: number;
  readonly clients: number;
  /** Hours from midnight. */
  readonly hours: number;
  /** GPU time that is asked for over a day, as a share of what the workers have. */
  readonly load: number;
  /** Most jobs that wait, for each worker. */
  readonly queuePerWorker: number;
  readonly seed: number;
}

export interface Outcome {
  /** By class of clients: seconds that each job waited, in order, and how many requests found no room. */
  readonly clients: readonly {
    readonly name: string;
    readonly waits: Float64Array;
    readonly refused: number;
  }[];
  /** How often a model was loaded. */
  readonly switches: number;
  /** Shares of the workers' time in jobs and in loading. */
  readonly useful: number;
  readonly loading: number;
  /** Jain's index of what clients got, by what was fair, while jobs waited throughout. */
  readonly fairness: number;
}

export function simulate(policy: Policy, options: SimulationOptions): Outcome {
  const { workers, clients, hours, load, queuePerWorker, seed } = options;
  const demand = new Demand({ seed, clients, rate: load * workers / MEAN_SECONDS });
  const random = new Random(seed + 1);
  const cards = Array.from({ length: workers }, (_, index) => CARDS[index % CARDS.length]!);
  const fleet = new Fleet(cards, policy, queuePerWorker * workers);
  const ends = new Ordered<{ readonly at: number; readonly worker: SimulatedWorker }>(
    (a, b) => a.at < b.at,
  );
  const groups = CLIENT_CLASSES.map(({ name }) => ({ name, waits: [] as number[], refused: 0 }));
  const groupOf = (client: number) =>
    groups[CLIENT_CLASSES.findIndex(({ upTo }) => client < upTo)]!;
  const shares = new Shares(clients);
  let [useful, loading, switches] = [0, 0, 0];
  const end = hours * 3600;

  const offer = (worker: SimulatedWorker, now: number): boolean => {
    const { loaded } = worker;
    const job = fleet.take(worker, now * 1000);
    if (job === undefined) return false;
    const { arrival: { model, seconds, client }, loras, queuedAt } = job;
    const isOtherModel = job.model !== loaded?.model;
    const areOtherLoras = loras.join() !== (isOtherModel ? "" : loaded.loras.join());
    if (isOtherModel) switches++;
    const extra = (isOtherModel ? model.loadSeconds : 0) + (areOtherLoras ? LORA_SECONDS : 0);
    loading += Math.min(extra, end - now);
    useful += Math.min(seconds, Math.max(end - now - extra, 0));
    groupOf(client).waits.push(now - queuedAt / 1000);
    shares.got(client, model.seconds);
    ends.add({ at: now + extra + seconds, worker });
    return true;
  };

  let next = demand.after(0);
  for (let now = 0; now < end;) {
    const done = ends.first;
    now = Math.min(next, done?.at ?? Infinity);
    if (now >= end) break;
    shares.until(now, fleet.waiting > 0);
    if (done !== undefined && done.at <= next) {
      ends.shift();
      if (!offer(done.worker, now)) fleet.free(done.worker);
      continue;
    }
    for (const arrival of demand.arrivals()) {
      const { client, model } = arrival;
      if (!fleet.add(arrival, now * 1000)) {
        groupOf(client).refused++;
        continue;
      }
      shares.wanted(client, model.seconds);
      // Any free worker may ask first; the policy makes those wait that would have to load.
      const first = fleet.freeWorker(model.name, random, false);
      if (first === undefined || offer(first, now)) continue;
      const warm = fleet.freeWorker(model.name, random, true);
      if (warm !== undefined) offer(warm, now);
    }
    next = demand.after(now);
  }
  return {
    clients: groups.map((group) => ({ ...group, waits: Float64Array.from(group.waits).sort() })),
    switches,
    useful: useful / (workers * end),
    loading: loading / (workers * end),
    fairness: shares.fairness,
  };
}

export function jobsOf({ clients }: Outcome): number {
  return clients.reduce((sum, { waits }) => sum + waits.length, 0);
}

/** What a share of the times does not exceed, in seconds; 0 where there are none. */
export function percentile(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}
