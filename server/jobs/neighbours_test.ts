import { strict as assert } from "node:assert";
import { FakeEngine } from "../../tests/fakes/engine.ts";
import { testDatabase } from "../../tests/fakes/job_stores.ts";
import { until } from "../../tests/fakes/service.ts";
import { noPostgres } from "../../tests/fleet/postgres.ts";
import { readImageRequest } from "../contract/image_generation.ts";
import { InputFolder } from "../inputs/input_folder.ts";
import { requestContext } from "../request_context.ts";
import type { JobContext, NewJob } from "./job.ts";
import { JobQueue } from "./job_queue.ts";
import type { JobRecord, JobStore, NewRecord } from "./job_store.ts";
import { cancelAndWait, watchNeighbours } from "./neighbours.ts";
import type { Queue } from "./queue.ts";
import { SqliteJobStore } from "./sqlite_store.ts";

const RECORD: NewRecord = { id: "a", kind: "image", request: 0, summary: null };

/** A server that others may ask to cancel its jobs. */
interface Neighbour {
  readonly store: JobStore;
  readonly queue: Queue;
  /** A job that goes on until it is cancelled. */
  job(id: string): Promise<NewJob<unknown>>;
  /** Heeds what others ask for, until what it gives is called. */
  heed(): () => void;
}

/** Runs with two servers, of which the first runs jobs. */
type Together = (run: (one: Neighbour, other: Neighbour) => Promise<void>) => Promise<void>;

/** Records and queue of a server. */
async function server(folder: string, adopts = false) {
  const store = await SqliteJobStore.open(folder, { adopts });
  return { store, queue: new JobQueue(store, { maxQueue: 8 }) };
}

const onSqlite: Together = async (run) => {
  const folder = await Deno.makeTempDir();
  const servers = [await server(folder), await server(folder)] as const;
  const failures: unknown[] = [];
  const neighbour = (one: typeof servers[0]): Neighbour => ({
    ...one,
    job: (id) => Promise.resolve({ ...RECORD, id, work: endless, toRecord: () => null }),
    heed: () =>
      watchNeighbours(one, {
        take: () => Promise.resolve(),
        fail: (error) => failures.push(error),
        lookMs: 1,
      }),
  });
  try {
    await run(neighbour(servers[0]), neighbour(servers[1]));
    assert.deepEqual(failures, []);
  } finally {
    for (const { queue, store } of servers) {
      await queue.close(0);
      await store.close();
    }
    await Deno.remove(folder, { recursive: true });
  }
};

const onPostgres: Together = async (run) => {
  const { createFleetService } = await import("../fleet/start.ts");
  const databaseUrl = await testDatabase();
  const folder = await Deno.makeTempDir();
  const start = async (role: "both" | "front") => {
    const service = await createFleetService({
      fleet: { databaseUrl, role },
      openEngine: () => Promise.resolve(new FakeEngine({ stepMs: 200 })),
      settings: { servedModelName: "gradients" },
      outputPath: folder,
    });
    await service.open();
    return service;
  };
  const services = [await start("both"), await start("front")];
  const neighbour = ({ services }: Awaited<ReturnType<typeof start>>): Neighbour => ({
    ...{ store: services.store, queue: services.queue },
    job: async (id) => {
      await until(() => services.engine.status === "ready");
      const { signal } = new AbortController();
      const sources = { folder: new InputFolder(folder, id), allowPrivateUrls: false, signal };
      const body = { prompt: "a", num_inference_steps: 50 };
      const request = await readImageRequest(body, await requestContext(services, signal), sources);
      return services.runners.image({ id, request }) as NewJob<unknown>;
    },
    heed: () => {
      // Workers hear of it; what waits is the servers' own doing, from time to time.
      const timer = setInterval(() => void services.store.reap().catch(() => {}), 5);
      return () => clearInterval(timer);
    },
  });
  try {
    await run(neighbour(services[0]!), neighbour(services[1]!));
  } finally {
    for (const service of services) {
      await service.stop(0);
      await service.free();
    }
    await Deno.remove(folder, { recursive: true });
  }
};

/** A test that holds wherever the records are. */
function test(title: string, run: (one: Neighbour, other: Neighbour) => Promise<void>): void {
  Deno.test(`${title}, with SQLite`, () => onSqlite(run));
  Deno.test({
    name: `${title}, with PostgreSQL${noPostgres ? `: ${noPostgres}` : ""}`,
    ignore: noPostgres !== undefined,
    // The cluster is started by the first and outlives it.
    ...{ sanitizeResources: false, sanitizeOps: false },
    fn: () => onPostgres(run),
  });
}

/** Work that goes on until it is cancelled. */
const endless = ({ signal }: JobContext) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

test(
  "cancelAndWait() cancels the jobs of another server, running or waiting",
  async (one, other) => {
    const stop = one.heed();
    for (const id of ["runs", "waits"]) {
      (await one.queue.add(await one.job(id))).outcome.catch(() => {});
      if (id === "runs") {
        await until(async () => (await one.store.get(id))!.status === "in_progress");
      }
    }
    for (const id of ["waits", "runs"]) {
      assert.equal(await cancelAndWait(other, id, 5000), true);
      assert.equal((await other.store.get(id))!.status, "cancelled");
    }
    await until(() => one.queue.running.length === 0);
    assert.equal(await cancelAndWait(other, "runs", 0), true, "it has ended");
    assert.equal(await cancelAndWait(other, "unknown", 0), true, "it is not there");
    stop();
  },
);

test("cancelAndWait() says when another server does not let go", async (one, other) => {
  (await one.queue.add(await one.job("a"))).outcome.catch(() => {});
  await until(async () => (await one.store.get("a"))!.status === "in_progress");
  assert.equal(await cancelAndWait(other, "a", 10), false);
});

test("a server ends a job that was to be cancelled and that no queue knows", async (one) => {
  await one.store.insert(RECORD);
  await one.store.requestCancel("a");
  (await one.queue.add(await one.job("b"))).outcome.catch(() => {});
  const stop = one.heed();
  await until(async () => (await one.store.get("a"))!.status === "cancelled");
  stop();
});

Deno.test("watchNeighbours() takes over what a server leaves that dies meanwhile", async () => {
  const folder = await Deno.makeTempDir();
  const living = await server(folder, true);
  const dying = await server(folder, true);
  await dying.store.insert(RECORD);
  const taken: JobRecord[] = [];
  const stop = watchNeighbours(living, {
    take: (jobs) => Promise.resolve(void taken.push(...jobs)),
    fail: () => {},
    lookMs: 1,
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual(taken, [], "it lives");
  // A store that adopts leaves its rows as a server leaves them that dies.
  await dying.store.close();
  await until(() => taken.length > 0);
  stop();
  assert.deepEqual(taken.map(({ id, status }) => [id, status]), [["a", "queued"]]);
  await living.store.close();
  await Deno.remove(folder, { recursive: true });
});
