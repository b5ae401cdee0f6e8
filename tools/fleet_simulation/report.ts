/** What simulations say, as tables. */

import { table } from "../../report/cells.ts";
import type { Outcome } from "./simulate.ts";

/** How often a worker says that it lives, in seconds: `BEAT_MS` of `server/fleet/roster.ts`. */
const BEAT_SECONDS = 2;
/** How often a running job says how far it is, in seconds. */
const PROGRESS_SECONDS = 1;
/** Messages that listeners get of a job: queued, begun, ended. */
const NEWS_PER_JOB = 3;

/** A simulation that has ended. */
export interface Finished {
  /** Name of the policy. */
  readonly name: string;
  /** What came of it. */
  readonly outcome: Outcome;
}

/** Waits by class of clients, for each policy. */
export function waitTable(runs: readonly Finished[]): string {
  const rows = runs.flatMap(({ name, outcome: { waits, refusals } }) =>
    waits.map((group, index) => ({ ...group, refused: refusals[index]!, policy: name }))
      .filter(({ jobs }) => jobs > 0)
  );
  const columns = ["policy", "clients", "jobs", "p50", "p95", "p99", "refused"];
  return table(
    columns,
    rows.map(({ policy, name, jobs, times, refused }) => [
      ...[policy, name, jobs.toLocaleString("en-US")],
      ...[0.5, 0.95, 0.99].map((share) => time(times.percentile(share))),
      percent(refused),
    ]),
    [2, 3, 4, 5, 6],
  );
}

/** Work, switches and fairness of each policy. */
export function policyTable(runs: readonly Finished[]): string {
  const columns = ["", ...runs.map(({ name }) => name)];
  const row = (title: string, show: (outcome: Outcome) => string) => [
    title,
    ...runs.map(({ outcome }) => show(outcome)),
  ];
  return table(
    columns,
    [
      row("jobs begun", ({ jobs }) => jobs.toLocaleString("en-US")),
      row("refused (429)", ({ refused }) => refused.toLocaleString("en-US")),
      row("models loaded", ({ switches }) => switches.toLocaleString("en-US")),
      row("models loaded, of jobs", ({ switches, jobs }) => percent(switches / jobs)),
      row("LoRAs set anew, of jobs", ({ loraSwitches, jobs }) => percent(loraSwitches / jobs)),
      row("workers' time in jobs", ({ useful }) => percent(useful)),
      row("workers' time in loading", ({ loading }) => percent(loading)),
      row("jobs waited throughout", ({ crowdedMinutes }) => `${crowdedMinutes.toFixed(0)} min`),
      row("Jain's index meanwhile", ({ fairness }) => fairness.toFixed(3)),
      row("longest queue", ({ longestQueue }) => longestQueue.toLocaleString("en-US")),
    ],
    runs.map((_, index) => index + 1),
  );
}

/** What PostgreSQL has to do for a fleet, per second. */
export function databaseTable({ database, useful, wakesPerJob }: Outcome, workers: number): string {
  const { inserts, claims, readings, rows, marks } = database;
  const beats = workers / BEAT_SECONDS;
  const steps = workers * useful / PROGRESS_SECONDS;
  const news = claims.mean * NEWS_PER_JOB;
  const busiest = claims.most * NEWS_PER_JOB;
  const list: [string, number, number][] = [
    ["jobs queued", inserts.mean, inserts.most],
    ["jobs claimed", claims.mean, claims.most],
    ["queues read by a worker", readings.mean, readings.most],
    ["rows read for that", rows.mean, rows.most],
    ["jobs marked as passed over", marks.mean, marks.most],
    ["heartbeats", beats, beats],
    ["progress of running jobs", steps, workers / PROGRESS_SECONDS],
    ["messages sent", news, busiest],
    ["messages delivered, if every worker listens", news * workers, busiest * workers],
    ["workers woken, if every free one is", wakesPerJob * inserts.mean, wakesPerJob * inserts.mean],
  ];
  return table(
    ["per second", "mean", "busiest minute"],
    list.map(([name, mean, most]) => [name, count(mean), count(most)]),
    [1, 2],
  );
}

function time(seconds: number): string {
  if (seconds < 1) return `${(seconds * 1000).toFixed(0)} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return `${(seconds / 60).toFixed(0)} min`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

function count(value: number): string {
  const digits = value < 10 ? 1 : 0;
  return Number(value.toFixed(digits)).toLocaleString("en-US");
}
