/** What every store must do. */

import { strict as assert } from "node:assert";
import { Cluster, noPostgres } from "../../tests/fleet/postgres.ts";
import { Database } from "../fleet/database.ts";
import { PostgresJobStore } from "../fleet/postgres_store.ts";
import { migrate } from "../fleet/schema.ts";
import type { JobFilter, JobStore, NewRecord } from "./job_store.ts";
import { SqliteJobStore } from "./sqlite_store.ts";
import { WriteBehindStore } from "./write_behind.ts";

let cluster: Promise<Cluster> | undefined;

/** A store on a database of its own, which goes when it is closed. */
async function onPostgres(): Promise<JobStore> {
  const database = await Database.open(await (await (cluster ??= Cluster.start())).database());
  await migrate(database);
  const store = new PostgresJobStore(database);
  store.close = () => database.close();
  return store;
}

Deno.test.afterAll(async () => await (await cluster)?.[Symbol.asyncDispose]());

const STORES: Readonly<Record<string, (folder: string) => Promise<JobStore>>> = {
  SqliteJobStore: (folder) => SqliteJobStore.open(folder),
  "SqliteJobStore in memory": () => Promise.resolve(SqliteJobStore.inMemory()),
  WriteBehindStore: async (folder) => new WriteBehindStore(await SqliteJobStore.open(folder)),
  PostgresJobStore: onPostgres,
};

const RECORD: NewRecord = { id: "a", kind: "image", request: 0, summary: null };

for (const [name, open] of Object.entries(STORES)) {
  /** Runs with a store of its own. */
  const isSkipped = open === onPostgres && noPostgres !== undefined;
  const test = (title: string, run: (store: JobStore) => Promise<void>) =>
    Deno.test({
      name: `${name} ${title}${isSkipped ? `: ${noPostgres}` : ""}`,
      ignore: isSkipped,
      // The cluster is started by the first and outlives it.
      ...(open === onPostgres ? { sanitizeResources: false, sanitizeOps: false } : {}),
      fn: async () => {
        const folder = await Deno.makeTempDir();
        const store = await open(folder);
        try {
          await run(store);
        } finally {
          await store.close();
          await Deno.remove(folder, { recursive: true });
        }
      },
    });

  test("keeps what it is told, with any text in it", async (store) => {
    const odd = 'a\0b "quotes" ○ \ud800';
    const request = { prompt: odd, seeds: [1, 2] };
    await store.insert({ id: "img_1", kind: "image", request, summary: { odd } });
    const queued = (await store.get("img_1"))!;
    assert.equal(queued.status, "queued");
    assert.deepEqual(queued.request, request);
    assert.deepEqual(queued.summary, { odd });
    assert.ok(Math.abs(queued.createdAt - Date.now()) < 5000);
    const change = {
      status: "completed",
      progress: 100,
      endedAt: 5,
      revisedPrompt: odd,
      result: { files: [] },
    } as const;
    assert.equal(await store.update("img_1", change), true);
    assert.deepEqual(await store.get("img_1"), { ...queued, ...change });
    assert.equal(await store.update("img_2", { progress: 1 }), false);
    assert.equal(await store.get("img_2"), undefined);
  });

  test("lists by kind and status, page by page, without requests", async (store) => {
    for (const id of ["a", "b", "c", "d", "e"]) {
      await store.insert({ ...RECORD, id, kind: id === "c" ? "image" : "video", summary: id });
    }
    await store.update("d", { status: "completed" });
    const list = async (filter?: JobFilter) => (await store.list(filter)).map(({ id }) => id);
    assert.deepEqual(await list(), ["e", "d", "c", "b", "a"]);
    assert.deepEqual(await list({ kind: "video", order: "asc" }), ["a", "b", "d", "e"]);
    assert.deepEqual(await list({ kind: "video", limit: 2 }), ["e", "d"]);
    assert.deepEqual(await list({ kind: "video", limit: 2, after: "d" }), ["b", "a"]);
    assert.deepEqual(await list({ order: "asc", after: "d" }), ["e"]);
    assert.deepEqual(await list({ after: "unknown" }), []);
    assert.deepEqual(await list({ statuses: ["completed"] }), ["d"]);
    const [newest] = await store.list();
    assert.ok(newest && !("request" in newest));
    assert.equal(newest.summary, "e");
    await store.delete("d");
    assert.equal(await store.get("d"), undefined);
  });

  test("counts by kind and status", async (store) => {
    for (const id of ["a", "b"]) await store.insert({ ...RECORD, id });
    await store.update("a", { status: "failed" });
    const counts = (await store.counts()).map(({ kind, status, count }) => [kind, status, count]);
    assert.deepEqual(counts.sort(), [["image", "failed", 1], ["image", "queued", 1]]);
  });

  test("endedBefore() gives what ended long ago", async (store) => {
    for (const id of ["a", "b", "c"]) await store.insert({ ...RECORD, id });
    await store.update("a", { status: "completed", endedAt: 200 });
    await store.update("b", { status: "failed", endedAt: 100 });
    const ids = async (time: number) => (await store.endedBefore(time, 10)).map(({ id }) => id);
    assert.deepEqual(await ids(201), ["b", "a"]);
    assert.deepEqual(await ids(200), ["b"]);
  });

  test("cancelRequests() names jobs until they have ended", async (store) => {
    for (const id of ["a", "b", "c"]) await store.insert({ ...RECORD, id });
    await store.update("b", { status: "completed" });
    for (const id of ["a", "b", "unknown"]) await store.requestCancel(id);
    assert.deepEqual(await store.cancelRequests(), ["a"]);
    await store.update("a", { status: "cancelled" });
    assert.deepEqual(await store.cancelRequests(), []);
  });
}
