/**
 * A fleet through a day of requests, on the policy that the fleet runs (`deno task simulate-fleet`).
 *
 *     deno task simulate-fleet                               # 10,000 workers, a day: some minutes
 *     deno task simulate-fleet --workers 200 --load 0.9
 *
 * Options: --workers N, --clients N, --hours N, --load SHARE of the workers' time that is asked for,
 * --queue-per-worker N, --seed N. `docs/fleet.md` says what the tables mean.
 */

import { parseArgs } from "node:util";
import { databaseTable, type Finished, policyTable, waitTable } from "./report.ts";
import { POLICIES, simulate } from "./simulate.ts";

/** What is simulated when nothing is said. */
const DEFAULTS = {
  workers: 10_000,
  clients: 50_000,
  hours: 24,
  load: 0.75,
  "queue-per-worker": 20,
  seed: 1,
};

if (import.meta.main) {
  const names = Object.keys(DEFAULTS) as (keyof typeof DEFAULTS)[];
  const { values } = parseArgs({
    args: Deno.args,
    options: Object.fromEntries(names.map((name) => [name, { type: "string" as const }])),
  });
  const [workers, clients, hours, load, queuePerWorker, seed] = names.map((name) => {
    const value = Number(values[name] ?? DEFAULTS[name]);
    if (value > 0) return value;
    console.error(`Cannot simulate: --${name} is ${values[name]}; give a number above 0`);
    Deno.exit(2);
  }) as [number, number, number, number, number, number];
  const runs: Finished[] = [];
  for (const policy of POLICIES) {
    const start = performance.now();
    const options = { workers, clients, hours, load, queuePerWorker, seed };
    runs.push({ name: policy.name, outcome: simulate(policy, options) });
    console.error(`${policy.name}: ${((performance.now() - start) / 1000).toFixed(0)} s`);
  }
  console.log(waitTable(runs), "\n");
  console.log(policyTable(runs), "\n");
  console.log(databaseTable(runs[0]!.outcome, workers));
}
