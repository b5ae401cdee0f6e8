import { strict as assert } from "node:assert";
import { until } from "../../tests/fakes/service.ts";
import type { JobContext } from "./job.ts";
import { JobQueue } from "./job_queue.ts";
import type { JobRecord, NewRecord } from "./job_store.ts";
import { cancelAndWait, watchNeighbours } from "./neighbours.ts";
import { SqliteJobStore } from "./sqlite_store.ts";

const RECORD: NewRecord = { id: "a", kind: "image", request: 0, summary: null };

/** Records and queue of a server. */
async function server(folder: string, adopts = false) {
  const store = await SqliteJobStore.open(folder, { adopts });
  return { store, queue: new JobQueue(store, { maxQueue: 8 }) };
}

/** Runs with two servers that share a folder. */
async function together(
  run: (one: Awaited<ReturnType<typeof server>>, other: typeof one) => Promise<void>,
) {
  const folder = await Deno.makeTempDir();
  const servers = [await server(folder), await server(folder)] as const;
  try {
    await run(...servers);
  } finally {
    for (const { queue, store } of servers) {
      await queue.close(0);
      await store.close();
    }
    await Deno.remove(folder, { recursive: true });
  }
}

/** Work that goes on until it is cancelled. */
const endless = ({ signal }: JobContext) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

Deno.test("cancelAndWait() cancels the jobs of another server, running or waiting", () =>
  together(async (one, other) => {
    const failures: unknown[] = [];
    const stop = watchNeighbours(one, {
      take: () => Promise.resolve(),
      fail: (error) => failures.push(error),
      lookMs: 1,
    });
    const jobs = ["runs", "waits"].map((id) => ({
      ...RECORD,
      id,
      work: endless,
      toRecord: () => null,
    }));
    for (const job of jobs) await one.queue.add(job);
    for (const id of ["waits", "runs"]) {
      assert.equal(await cancelAndWait(other, id, 5000), true);
      assert.equal((await other.store.get(id))!.status, "cancelled");
    }
    assert.deepEqual(one.queue.running, []);
    assert.equal(await cancelAndWait(other, "runs", 0), true, "it has ended");
    assert.equal(await cancelAndWait(other, "unknown", 0), true, "it is not there");
    stop();
    assert.deepEqual(failures, []);
  }));

Deno.test("cancelAndWait() says when another server does not let go", () =>
  together(async (one, other) => {
    await one.queue.add({ ...RECORD, work: endless, toRecord: () => null });
    assert.equal(await cancelAndWait(other, "a", 10), false);
  }));

Deno.test("watchNeighbours() ends a job of its own that the queue does not know", () =>
  together(async (one) => {
    await one.store.insert(RECORD);
    await one.store.requestCancel("a");
    const { outcome } = await one.queue.add({
      ...{ ...RECORD, id: "b" },
      work: endless,
      toRecord: () => null,
    });
    const stop = watchNeighbours(one, {
      take: () => Promise.resolve(),
      fail: () => {},
      lookMs: 1,
    });
    await until(async () => (await one.store.get("a"))!.status === "cancelled");
    stop();
    await one.queue.cancelAndWait("b");
    await assert.rejects(outcome);
  }));

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
