/**
 * A fleet through a day of requests, on the policy that the fleet runs (`deno task simulate-fleet`).
 *
 *     deno task simulate-fleet                               # 10,000 workers, a day: 20 minutes
 *     deno task simulate-fleet --workers 200 --load 0.9
 *
 * Options: --workers N, --clients N, --hours N, --load SHARE of the workers' time that is asked for,
 * --queue-per-worker N, --seed N. `docs/fleet.md` says what the tables mean.
 */

import { parseArgs } from "node:util";
import { percent, table } from "../../report/cells.ts";
import { jobsOf, type Outcome, percentile, POLICIES, simulate } from "./simulate.ts";

const DEFAULTS = {
  workers: 10_000,
  clients: 50_000,
  hours: 24,
  load: 0.75,
  "queue-per-worker": 20,
  seed: 1,
};

/** Waits by class of clients, then what each policy made of the workers' time, as tables in Markdown. */
export function simulationTables(outcomes: readonly Outcome[]): string {
  const names = POLICIES.map(({ name }) => name);
  const waits = outcomes.flatMap(({ clients }, i) =>
    clients.filter(({ waits }) => waits.length > 0).map(({ name, waits, refused }) => [
      names[i],
      name,
      ...[0.5, 0.95, 0.99].map((share) => time(percentile(waits, share))),
      percent(refused / (refused + waits.length)),
    ])
  );
  const row = (title: string, show: (outcome: Outcome) => string) => [title, ...outcomes.map(show)];
  const rows = [
    row("jobs begun", (outcome) => jobsOf(outcome).toLocaleString("en-US")),
    row("models loaded", ({ switches }) => switches.toLocaleString("en-US")),
    row("workers' time in loading", ({ loading }) => percent(loading)),
    row("Jain's index of GPU time", ({ fairness }) => fairness.toFixed(3)),
  ];
  return table(["policy", "clients", "p50", "p95", "p99", "refused"], waits, [2, 3, 4, 5]) +
    "\n\n" + table(["", ...names], rows, names.map((_, i) => i + 1));
}

function time(seconds: number): string {
  if (seconds < 1) return `${(seconds * 1000).toFixed(0)} ms`;
  return seconds < 120 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(0)} min`;
}

if (import.meta.main) {
  const names = Object.keys(DEFAULTS) as (keyof typeof DEFAULTS)[];
  const { values } = parseArgs({
    args: Deno.args,
    options: Object.fromEntries(names.map((name) => [name, { type: "string" as const }])),
  });
  const given = names.map((name) => {
    const value = Number(values[name] ?? DEFAULTS[name]);
    if (value > 0) return [name, value];
    console.error(`Cannot simulate: --${name} is ${values[name]}; give a number above 0`);
    Deno.exit(2);
  });
  const { "queue-per-worker": queuePerWorker, ...sizes } = Object.fromEntries(
    given,
  ) as typeof DEFAULTS;
  const outcomes = POLICIES.map((policy) => {
    console.error(policy.name);
    return simulate(policy, { ...sizes, queuePerWorker });
  });
  console.log(simulationTables(outcomes));
}
