/**
 * Fleets of processes whose members are killed and whose database is restarted: every job ends, once. The large trial
 * runs with `DENOISE_SLOW`, on moto's S3 where `PYTHON` has it.
 */

import { strict as assert } from "node:assert";
import type { JobRecord } from "../../server/jobs/job_store.ts";
import { isLeftOver } from "../../server/jobs/retention.ts";
import { LocalStorage } from "../../server/storage/local.ts";
import { FakeS3 } from "../fakes/s3.ts";
import { missing } from "../clients/python.ts";
import { startStore } from "../clients/s3_process.ts";
import { Cluster, noPostgres } from "./postgres.ts";
import { type Poll, runTrial, type Strike, type TrialPlan, type TrialResult } from "./trial.ts";

const SMALL: TrialPlan = {
  ...{ jobs: 16, clients: 4, workers: 2, fronts: 1, pollers: 2, pollMs: 500, stepMs: 20 },
  ...{ workerKills: 1, frontKills: 0, restarts: 1, revives: false, hasNiceWorkers: false },
};
const LARGE: TrialPlan = {
  ...{ jobs: 500, clients: 50, workers: 3, fronts: 2, pollers: 1000, pollMs: 4000, stepMs: 250 },
  ...{ workerKills: 50, frontKills: 10, restarts: 3, revives: true, hasNiceWorkers: true },
};

/** Every job that was accepted ended once; each result is kept once, and is what it was to be. */
function check(plan: TrialPlan, { accepted, jobs, ends, log }: TrialResult): void {
  const told = log.slice(-200).join("\n");
  const ids = new Set(jobs.map(({ id }) => id));
  assert.ok(accepted.length >= plan.jobs);
  assert.deepEqual(accepted.filter((id) => !ids.has(id)), [], told);
  assert.deepEqual(jobs.filter(({ id }) => ends.get(id) !== 1).map(({ id }) => id), [], told);
  for (const { id, status, deaths, error } of jobs) {
    if (status === "completed") continue;
    assert.equal(status, "failed", told);
    assert.match(error ?? "", /worker_lost/, `${id} ${deaths} ${told}`);
    assert.equal(deaths, 2, told);
  }
  for (const [prompt, alike] of Map.groupBy(jobs, ({ prompt }) => prompt)) {
    const etags = new Set(alike.flatMap(({ files }) => files.map(({ etag }) => etag)));
    assert.equal(etags.size, 1, `${prompt} has one picture, whoever made it`);
  }
}

function tell(result: TrialResult): void {
  const { jobs, polls, failedPolls, seconds, longestStallMs } = result;
  const again = jobs.filter(({ deaths }) => deaths > 0).length;
  const failed = jobs.filter(({ status }) => status === "failed").length;
  console.log(
    `${jobs.length} jobs in ${
      seconds.toFixed(0)
    } s, ${again} begun again, ${failed} failed after ` +
      `two workers; longest time without an end ${(longestStallMs / 1000).toFixed(1)} s; ` +
      `polls: ${percentiles(polls)}; not answered: ${
        [...failedPolls].map(([why, count]) => `${count} ${why}`).join(", ") || "none"
      }; ` +
      `order off by ${meanDistance(result).toFixed(2)} rounds on average`,
  );
}

function percentile(polls: readonly Poll[], share: number): number {
  const times = polls.map(({ ms }) => ms).sort((a, b) => a - b);
  return times[Math.floor(times.length * share)] ?? 0;
}

function percentiles(polls: readonly Poll[]): string {
  const at = (share: number) => percentile(polls, share).toFixed(0);
  return `${polls.length}, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`;
}

/** How busy a machine may be for the time of answers to be the fleet's own. */
const IDLE_LOAD = 1;
/** In which 99 of 100 polls are to be answered, in milliseconds. */
const P99_MS = 100;

/** How long after a strike its members are not what they were: connections are made again, code is compiled. */
const AFTER_MS = 2000;

/** What the slow answers met. */
function explainPolls({ polls, strikes }: TrialResult): void {
  const meets = ({ at, ms }: Poll, { from, to }: Strike, after = 0) =>
    at < to + after && at + ms > from;
  const kinds: Record<string, (poll: Poll) => boolean> = {
    "while the front that is asked starts": (poll) =>
      strikes.some((strike) =>
        strike.what === "front" && strike.index === poll.front && meets(poll, strike, AFTER_MS)
      ),
    "while the database starts": (poll) =>
      strikes.some((strike) => strike.what === "database" && meets(poll, strike, AFTER_MS)),
    "while another front starts": (poll) =>
      strikes.some((strike) => strike.what === "front" && meets(poll, strike)),
    "while a worker starts": (poll) =>
      strikes.some((strike) => strike.what === "worker" && meets(poll, strike)),
    "while nothing starts": () => true,
  };
  let left: readonly Poll[] = polls;
  let living: Poll[] = [];
  for (const [index, [kind, holds]] of Object.entries(kinds).entries()) {
    const [of, others] = [[], []] as [Poll[], Poll[]];
    for (const poll of left) (holds(poll) ? of : others).push(poll);
    left = others;
    if (index > 1) living = living.concat(of);
    const slow = of.filter(({ ms }) => ms > 100).length;
    console.log(`polls ${kind}: ${percentiles(of)}, ${slow} of more than 100 ms`);
  }
  console.log(`polls of fronts that live, with the database at hand: ${percentiles(living)}`);
}

/** How far jobs are from their round: the k-th job of each client is to be begun before any client's k+1-th. */
function meanDistance({ jobs }: TrialResult): number {
  const begun = jobs.filter(({ taken }) => taken > 0).sort((a, b) => a.taken - b.taken);
  const clients = new Set(begun.map(({ client }) => client)).size;
  const counts = new Map<string, number>();
  let sum = 0;
  for (const [rank, { client }] of begun.entries()) {
    const round = counts.get(client) ?? 0;
    counts.set(client, round + 1);
    sum += Math.abs(rank / clients - round - 0.5);
  }
  return sum / begun.length;
}

Deno.test({
  name: `a fleet whose members and database go down ends every job once${
    noPostgres ? `: ${noPostgres}` : ""
  }`,
  ignore: noPostgres !== undefined,
  fn: async () => {
    await using cluster = await Cluster.start();
    const folder = await Deno.makeTempDir();
    const result = await runTrial(SMALL, { cluster, url: await cluster.database(), folder });
    tell(result);
    check(SMALL, result);
    // A member that is killed while it writes leaves a part of a file, which the next sweep removes.
    const jobs = new Map(result.jobs.map(({ id, status }) => [id, { status } as JobRecord]));
    const store = { get: (id: string) => Promise.resolve(jobs.get(id)) };
    await new LocalStorage(folder).clean((name) => isLeftOver(name, store));
    const kept = [...Deno.readDirSync(folder)].map(({ name }) => name)
      .filter((name) => name.startsWith("img_"));
    const recorded = result.jobs.flatMap(({ files }) => files.map(({ name }) => name));
    assert.deepEqual(kept.sort(), recorded.sort());
    await Deno.remove(folder, { recursive: true });
  },
});

const isSlow = Deno.env.has("DENOISE_SLOW");

Deno.test({
  name:
    "500 jobs of 50 clients while workers are killed 50 times, fronts 10 times and PostgreSQL " +
    `is restarted 3 times${noPostgres ? `: ${noPostgres}` : "; with DENOISE_SLOW"}`,
  ignore: noPostgres !== undefined || !isSlow,
  fn: async () => {
    await using cluster = await Cluster.start();
    await using store = await missing("moto") === undefined ? await startStore() : fakeStore();
    const folder = await Deno.makeTempDir();
    const [load] = Deno.loadavg() as [number, number, number];
    const result = await runTrial(LARGE, {
      ...{ cluster, folder, s3: store.settings },
      url: await cluster.database(),
    });
    tell(result);
    explainPolls(result);
    check(LARGE, result);
    assert.ok(meanDistance(result) < 1.5, "clients take turns");
    const p99 = percentile(result.polls, 0.99);
    if (load < IDLE_LOAD) assert.ok(p99 < P99_MS, `p99 of polls is ${p99} ms`);
    else console.log(`p99 of polls is not checked: other programs were at work, load ${load}`);
    const recorded = new Set(result.jobs.flatMap(({ files }) => files.map(({ name }) => name)));
    const kept = await store.names();
    assert.deepEqual(kept.filter((name) => !recorded.has(name)), [], "nothing is left over");
    assert.equal(kept.length, recorded.size, "nothing is lost");
    await Deno.remove(folder, { recursive: true });
  },
});

function fakeStore() {
  const settings = {
    ...{ bucket: "results", region: "eu-west-1" },
    ...{ accessKeyId: "key", secretAccessKey: "secret" },
  };
  const store = new FakeS3(settings);
  return {
    settings: { ...settings, endpoint: store.endpoint },
    names: () => Promise.resolve([...store.objects.keys()]),
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
}
