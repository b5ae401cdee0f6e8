/** A fleet of processes under fire: members are killed and the database restarted while clients work. */

import { fileURLToPath } from "node:url";
import postgres from "postgres";
import type { S3Settings } from "../../server/storage/s3_settings.ts";
import type { MemberOptions } from "./member.ts";
import type { Cluster } from "./postgres.ts";

/** How much of everything. */
export interface TrialPlan {
  jobs: number;
  clients: number;
  workers: number;
  fronts: number;
  workerKills: number;
  frontKills: number;
  restarts: number;
  /** Whether workers that were killed are started again. */
  revives: boolean;
  /** Whether workers have a lower priority: they stand for other machines, and are not to slow down those that answer. */
  hasNiceWorkers: boolean;
  /** Requests for the state of a job that are under way all the time, in turns of `pollMs`. */
  pollers: number;
  pollMs: number;
  stepMs: number;
}

/** A job at its end. */
export interface EndedJob {
  id: string;
  client: string;
  status: string;
  deaths: number;
  endedAt: number;
  taken: number;
  seq: number;
  turn: number;
  error: string | null;
  files: { name: string; etag: string; url?: string }[];
  prompt: string;
}

/** An answer to a poller; times are in milliseconds since the start. */
export interface Poll {
  /** When it was asked. */
  at: number;
  /** How long the answer took. */
  ms: number;
  /** Number of the front that was asked. */
  front: number;
}

/** Something that was done to the fleet. */
export interface Strike {
  what: "front" | "worker" | "database";
  /** Number of the member. */
  index: number;
  /** When it was killed or stopped, in milliseconds since the start. */
  from: number;
  /** When it was there again. */
  to: number;
}

/** What came of it. */
export interface TrialResult {
  /** Ids that clients were given. */
  accepted: string[];
  jobs: EndedJob[];
  /** How often each job came to an end. */
  ends: Map<string, number>;
  /** Longest time without an end while there was work, in milliseconds. */
  longestStallMs: number;
  seconds: number;
  /** Answers to pollers, in their order. */
  polls: Poll[];
  /** How many polls were not answered with a state, by what came instead. */
  failedPolls: Map<string, number>;
  /** What was done to the fleet, and when. */
  strikes: Strike[];
  log: string[];
}

const MEMBER = fileURLToPath(new URL("member.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../../deno.json", import.meta.url));

/** Whether processes have priorities that `nice` sets. */
const HAS_PRIORITIES = Deno.build.os !== "windows";

/** How long the answers to pollers are not counted, in milliseconds. */
const WARM_MS = 8000;

/** Prompts: jobs of one have one seed and one result. */
const PROMPTS = ["a", "bb", "ccc"];

/** Runs a trial. */
export async function runTrial(
  plan: TrialPlan,
  { cluster, url, folder, s3 }: {
    cluster: Cluster;
    url: string;
    folder: string;
    s3?: S3Settings;
  },
): Promise<TrialResult> {
  const log: string[] = [];
  const started = performance.now();
  const say = (line: string) =>
    log.push(`${((performance.now() - started) / 1000).toFixed(1)} ${line}`);
  const apiKeys = Array.from({ length: plan.clients }, (_, index) => `key-${index}`);
  const ports = Array.from({ length: plan.fronts }, freePort);
  const common = {
    ...{ databaseUrl: url, outputPath: folder, apiKeys, stepMs: plan.stepMs },
    ...(s3 ? { s3 } : {}),
  };
  const start = (name: string, own: Partial<MemberOptions>) =>
    Member.start(
      name,
      { role: "worker", ...common, ...own },
      plan.hasNiceWorkers && HAS_PRIORITIES && own.role !== "front",
      say,
    );
  const fronts = await Promise.all(
    ports.map((port, index) => start(`front ${index}`, { role: "front", port })),
  );
  const workers = await Promise.all(
    Array.from({ length: plan.workers }, (_, index) => start(`worker ${index}`, {})),
  );
  await watchEnds(url);
  const accepted: string[] = [];
  let isOver = false;
  const ask = (front: number, path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${ports[front % ports.length]}${path}`, {
      ...init,
      signal: AbortSignal.timeout(20_000),
    });
  await until(async () => {
    const answer = await ask(0, "/health").catch(() => undefined);
    await answer?.body?.cancel();
    return answer?.status === 200;
  });
  const began = performance.now();
  let turn = 0;
  const submit = async (client: number, count: number) => {
    for (let k = 0; k < count; k++) {
      const prompt = PROMPTS[(client + k) % PROMPTS.length]!;
      for (let attempt = 0;; attempt++) {
        try {
          const answer = await ask(turn++, "/v1/images/generations", {
            method: "POST",
            headers: {
              authorization: `Bearer ${apiKeys[client]}`,
              "content-type": "application/json",
              prefer: "respond-async",
            },
            body: JSON.stringify({ prompt, seed: 1, output_format: "png" }),
          });
          const body = await answer.json();
          if (answer.status === 202) {
            accepted.push(body.id);
            break;
          }
          if (answer.status !== 503 && answer.status !== 429) {
            say(`refused: ${JSON.stringify(body)}`);
          }
        } catch {
          // The front is being killed.
        }
        if (attempt > 300) throw new Error("Cannot queue a job");
        await sleep(200);
      }
    }
  };
  const polls: Poll[] = [];
  const done: Strike[] = [];
  const down = new Set<number>();
  const failedPolls = new Map<string, number>();
  const fail = (why: string) => failedPolls.set(why, (failedPolls.get(why) ?? 0) + 1);
  const poll = async (index: number) => {
    await sleep(plan.pollMs * index / Math.max(1, plan.pollers));
    while (!isOver) {
      const id = accepted[(index * 7919) % Math.max(1, accepted.length)];
      const since = performance.now();
      if (id !== undefined) {
        try {
          const answer = await ask(index, `/v1/jobs/${id}`, {
            headers: { authorization: `Bearer ${apiKeys[index % apiKeys.length]}` },
          });
          await answer.text();
          // All of them connect in the first seconds, to servers that have just started.
          const isWarm = since - began > WARM_MS;
          if (answer.status !== 200) fail(String(answer.status));
          else if (isWarm) {
            const ms = performance.now() - since;
            polls.push({ at: since - began, ms, front: index % ports.length });
          }
        } catch (error) {
          const isDown = down.has(index % ports.length);
          fail(isDown ? "its front was killed" : (error as Error).message.slice(0, 60));
        }
      }
      await sleep(Math.max(0, plan.pollMs - (performance.now() - since)));
    }
  };
  const polling = Array.from({ length: plan.pollers }, (_, index) => poll(index));
  const each = Math.ceil(plan.jobs / plan.clients);
  const submitting = Promise.all(apiKeys.map((_, client) => submit(client, each)));
  const sql = postgres(url, { max: 1, onnotice: () => {}, fetch_types: false });
  const countEnded = async () => {
    try {
      const [row] = await sql`SELECT count(*)::integer AS count FROM denoise_jobs
        WHERE ended_at IS NOT NULL`;
      return Number(row!["count"]);
    } catch {
      return undefined;
    }
  };

  // What happens is spread over the work.
  const during = async (what: Strike["what"], index: number, work: () => Promise<void>) => {
    const from = performance.now() - began;
    say(`${what} ${index} goes down`);
    await work();
    done.push({ what, index, from, to: performance.now() - began });
    say(`${what} ${index} is there again`);
  };
  const strikes: [number, () => Promise<void>][] = [
    ...spread(plan.workerKills, (index) => {
      const at = index % workers.length;
      return during("worker", at, async () => {
        await workers[at]!.kill();
        if (plan.revives) workers[at] = await start(`worker ${at}`, {});
      });
    }),
    ...spread(plan.frontKills, (index) => {
      const at = index % fronts.length;
      return during("front", at, async () => {
        down.add(at);
        await fronts[at]!.kill();
        fronts[at] = await start(`front ${at}`, { role: "front", port: ports[at]! });
        down.delete(at);
      });
    }),
    ...spread(plan.restarts, (index) =>
      during("database", index, async () => {
        await cluster.stop();
        await sleep(500);
        await cluster.run();
      })),
  ];
  strikes.sort(([a], [b]) => a - b);
  const striking = (async () => {
    for (const [share, strike] of strikes) {
      while ((await countEnded() ?? 0) < share * plan.jobs * 0.9) await sleep(50);
      await strike();
    }
  })();
  await submitting;
  say("all jobs are queued");
  let left = Infinity;
  for (let since = performance.now(), last = -1; left > 0;) {
    await sleep(100);
    const rows = await sql`SELECT count(*)::integer AS count FROM denoise_jobs
      WHERE ended_at IS NULL`.catch(() => undefined);
    if (rows) left = Number(rows[0]!["count"]);
    if (left !== last) [last, since] = [left, performance.now()];
    if (performance.now() - since > 90_000) {
      throw new Error(`Cannot end ${left} jobs\n${log.join("\n")}`);
    }
  }
  await striking;
  const seconds = (performance.now() - began) / 1000;
  isOver = true;
  await Promise.all(polling);
  for (const member of [...workers, ...fronts]) await member.end();
  const rows =
    await sql`SELECT id, client, status, deaths, ended_at, taken, seq, turn, error, result,
    request FROM denoise_jobs ORDER BY ended_at`;
  const ends = await sql`SELECT job, count(*)::integer AS count FROM test_ends GROUP BY job`;
  await sql.end();
  const jobs = rows.map((row) => ({
    ...{ id: row["id"], client: row["client"], status: row["status"], error: row["error"] },
    ...{ deaths: Number(row["deaths"]), endedAt: Number(row["ended_at"]) },
    ...{ taken: Number(row["taken"]), seq: Number(row["seq"]), turn: Number(row["turn"]) },
    files: row["result"] === null ? [] : JSON.parse(row["result"]).files,
    prompt: JSON.parse(row["request"]).prompt,
  }));
  const times = jobs.map(({ endedAt }) => endedAt);
  return {
    ...{ accepted, jobs, seconds, failedPolls, log },
    ends: new Map(ends.map((row) => [String(row["job"]), Number(row["count"])])),
    longestStallMs: Math.max(0, ...times.slice(1).map((time, index) => time - times[index]!)),
    ...{ polls, strikes: done },
  };
}

/** Notes each time that a job comes to an end. */
async function watchEnds(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  await sql.unsafe(`
    CREATE TABLE test_ends (job text NOT NULL);
    CREATE FUNCTION test_note_end() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL OR
        NEW.status IN ('completed', 'failed', 'cancelled') AND NEW.status <> OLD.status
      THEN INSERT INTO test_ends VALUES (NEW.id); END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER test_note_end AFTER UPDATE ON denoise_jobs
      FOR EACH ROW EXECUTE FUNCTION test_note_end();`);
  await sql.end();
}

/** A process. */
class Member {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;

  private constructor(child: Deno.ChildProcess, reading: Promise<void>) {
    this.#child = child;
    this.#reading = reading;
  }

  static async start(
    name: string,
    options: MemberOptions,
    isNice: boolean,
    say: (line: string) => void,
  ): Promise<Member> {
    const run = ["run", "-A", "--no-check", "--config", CONFIG, MEMBER, JSON.stringify(options)];
    const child = new Deno.Command(isNice ? "nice" : Deno.execPath(), {
      args: isNice ? ["-n", "10", Deno.execPath(), ...run] : run,
      env: { NO_COLOR: "1" },
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const ready = Promise.withResolvers<void>();
    const read = async (stream: ReadableStream<Uint8Array<ArrayBuffer>>) => {
      for await (const text of stream.pipeThrough(new TextDecoderStream())) {
        for (const line of text.trim().split("\n")) say(`${name}: ${line}`);
        if (text.includes("ready")) ready.resolve();
      }
    };
    const reading = Promise.all([read(child.stdout), read(child.stderr)]).then(() =>
      ready.resolve()
    );
    await ready.promise;
    return new Member(child, reading);
  }

  /** Ends the member without a word. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
    await this.#reading;
  }

  async end(): Promise<void> {
    try {
      this.#child.kill("SIGTERM");
    } catch {
      // It has ended already.
    }
    await this.#child.status;
    await this.#reading;
  }
}

function spread(
  count: number,
  strike: (index: number) => Promise<void>,
): [number, () => Promise<void>][] {
  return Array.from({ length: count }, (_, index) => [
    (index + 0.5) / count,
    () => strike(index),
  ]);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 60_000; !await holds(); await sleep(100)) {
    if (performance.now() > end) throw new Error("Cannot start the fleet");
  }
}

function freePort(): number {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  return port;
}
