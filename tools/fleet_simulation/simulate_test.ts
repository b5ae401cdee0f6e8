import { strict as assert } from "node:assert";
import { databaseTable, policyTable, waitTable } from "./report.ts";
import { POLICIES, simulate } from "./simulate.ts";

const SIZE = { workers: 24, clients: 300, hours: 24, load: 0.75, queuePerWorker: 20, seed: 1 };

Deno.test("simulate() shows that turns are fair and that affinity saves loading", () => {
  const [own, plain, first] = POLICIES.map((policy) => simulate(policy, SIZE));
  const seen = JSON.stringify([own, plain, first].map((outcome) => outcome!.switches));
  assert.ok(own!.switches < 0.5 * plain!.switches, seen);
  assert.ok(own!.switches < 0.5 * first!.switches, seen);
  assert.ok(own!.jobs > first!.jobs && own!.refused < first!.refused);
  assert.ok(own!.fairness > 0.9, `Jain's index ${own!.fairness}`);
  assert.ok(first!.fairness < 0.7, `Jain's index ${first!.fairness} of first come`);
  const small = own!.waits[2]!.times;
  assert.ok(small.percentile(0.95) < 60, `p95 of small clients ${small.percentile(0.95)} s`);
  assert.equal(own!.refusals[2], 0);
});

Deno.test("simulate() gives the same day for the same seed, and its tables name every policy", () => {
  const runs = POLICIES.map((policy) => ({
    name: policy.name,
    outcome: simulate(policy, { ...SIZE, hours: 2, load: 1.5 }),
  }));
  const again = simulate(POLICIES[0]!, { ...SIZE, hours: 2, load: 1.5 });
  assert.deepEqual(again, runs[0]!.outcome);
  const tables = waitTable(runs) + policyTable(runs) + databaseTable(again, 24);
  for (const { name } of POLICIES) assert.ok(tables.includes(name), name);
  assert.doesNotMatch(tables, /NaN|Infinity|undefined/);
});

Deno.test("simulate() does what is asked for, where there is room for it", () => {
  const outcome = simulate(POLICIES[0]!, { ...SIZE, workers: 200, load: 0.2, hours: 12 });
  assert.equal(outcome.refused, 0);
  assert.ok(Math.abs(outcome.useful - 0.2 * 0.76) < 0.05, `in jobs ${outcome.useful}`);
});
