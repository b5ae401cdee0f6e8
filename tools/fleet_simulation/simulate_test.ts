import { strict as assert } from "node:assert";
import { simulationTables } from "./main.ts";
import { jobsOf, type Outcome, percentile, POLICIES, simulate } from "./simulate.ts";

const SIZE = { workers: 24, clients: 300, hours: 24, load: 0.75, queuePerWorker: 20, seed: 4 };

Deno.test("simulate() shows that turns are fair and that affinity saves loading", () => {
  const [own, plain, first] = POLICIES.map((policy) => simulate(policy, SIZE));
  const seen = JSON.stringify([own, plain, first].map((outcome) => outcome!.switches));
  assert.ok(own!.switches < 0.5 * plain!.switches, seen);
  assert.ok(own!.switches < 0.5 * first!.switches, seen);
  const refused = ({ clients }: Outcome) => clients.reduce((sum, { refused }) => sum + refused, 0);
  assert.ok(jobsOf(own!) > jobsOf(first!) && refused(own!) < refused(first!));
  assert.ok(own!.fairness > 0.9, `Jain's index ${own!.fairness}`);
  assert.ok(first!.fairness < 0.7, `Jain's index ${first!.fairness} of first come`);
  const small = own!.clients[2]!;
  const p95 = percentile(small.waits, 0.95);
  assert.ok(p95 < 60, `p95 of small clients ${p95} s`);
  assert.equal(small.refused, 0);
});

Deno.test("simulate() gives the same day for the same seed, and its tables name every policy", () => {
  const day = { ...SIZE, hours: 2, load: 1.5 };
  // As texts: once, V8 15 had the numbers of a later result in an earlier one.
  const [first, again] = [0, 1].map(() => JSON.stringify(simulate(POLICIES[0]!, day)));
  assert.equal(again, first);
  const outcomes = POLICIES.map((policy) => simulate(policy, day));
  const tables = simulationTables(outcomes);
  for (const { name } of POLICIES) assert.ok(tables.includes(name), name);
  assert.doesNotMatch(tables, /NaN|Infinity|undefined/);
});

Deno.test("simulate() does what is asked for, where there is room for it", () => {
  const outcome = simulate(POLICIES[0]!, { ...SIZE, workers: 200, load: 0.2, hours: 12 });
  assert.ok(outcome.clients.every(({ refused }) => refused === 0));
  assert.ok(Math.abs(outcome.useful - 0.2 * 0.76) < 0.05, `in jobs ${outcome.useful}`);
});

Deno.test("percentile() is what a share of the times does not exceed", () => {
  const times = Float64Array.from({ length: 100 }, (_, i) => i + 1);
  assert.deepEqual([0, 0.5, 0.99, 1].map((share) => percentile(times, share)), [1, 50, 99, 100]);
  assert.equal(percentile(new Float64Array(), 0.5), 0);
});
