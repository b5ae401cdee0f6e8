/** What every store must do. */

import { strict as assert } from "node:assert";
import { onStores, STORE_KINDS, type TestRecords } from "../../tests/fakes/job_stores.ts";
import { type JobFilter, type NewRecord, REPEAT_MS, RepeatedRequestError } from "./job_store.ts";

const HOUR_MS = 60 * 60 * 1000;
const RECORD: NewRecord = { id: "a", kind: "image", request: 0, summary: null };

function test(
  title: string,
  run: (store: TestRecords["store"], age: TestRecords["age"]) => Promise<void>,
): void {
  onStores(STORE_KINDS, `a store ${title}`, ({ store, age }) => run(store, age));
}

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
  assert.deepEqual([await store.delete("d"), await store.delete("d")], [true, false]);
  assert.equal(await store.get("d"), undefined);
});

test("counts by kind and status", async (store) => {
  for (const id of ["a", "b"]) await store.insert({ ...RECORD, id });
  await store.update("a", { status: "failed" });
  const counts = (await store.counts()).map(({ kind, status, count }) => [kind, status, count]);
  assert.deepEqual(counts.sort(), [["image", "failed", 1], ["image", "queued", 1]]);
});

test("expired() gives what ended long ago, and what has no result beyond a number", async (store) => {
  const now = Date.now();
  const ends = {
    a: ["completed", 1],
    b: ["failed", 2],
    c: ["cancelled", 3],
    d: ["failed", 4],
  } as const;
  for (const [id, [status, hours]] of Object.entries(ends)) {
    await store.insert({ ...RECORD, id });
    await store.update(id, { status, endedAt: now - hours * HOUR_MS });
  }
  await store.insert({ ...RECORD, id: "waits" });
  const ids = async (ms: number, unfinished: number, limit = 10) =>
    (await store.expired({ ms, unfinished }, limit)).map(({ id }) => id).sort();
  assert.deepEqual(await ids(0, 10), ["a", "b", "c", "d"]);
  assert.deepEqual(await ids(2.5 * HOUR_MS, 10), ["c", "d"]);
  assert.deepEqual(await ids(2.5 * HOUR_MS, 10, 1), ["d"]);
  assert.deepEqual(await ids(Infinity, 3), []);
  assert.deepEqual(await ids(Infinity, 2), ["d"]);
  assert.deepEqual(await ids(Infinity, 1), ["c", "d"]);
  assert.deepEqual(await ids(3.5 * HOUR_MS, 1), ["c", "d"]);
});

onStores(
  STORE_KINDS.filter((kind) => kind.includes("Postgre")),
  "a store has the times of its database, whatever the clocks of those who write and read say",
  async ({ store }) => {
    const { now } = Date;
    for (const [id, days] of [["a", -30], ["b", 30]] as const) {
      await store.insert({ ...RECORD, id });
      Date.now = () => now() + days * 24 * HOUR_MS;
      await store.update(id, { status: "in_progress", startedAt: Date.now() - 5000 });
      await store.update(id, { status: "completed", endedAt: Date.now() - 2000 });
      assert.deepEqual(await store.expired({ ms: HOUR_MS, unfinished: 1 }, 10), []);
      Date.now = now;
      const { startedAt, endedAt } = (await store.get(id))!;
      assert.ok(Math.abs(endedAt! - startedAt! - 3000) < 1000, `${startedAt} ${endedAt}`);
      assert.ok(Math.abs(endedAt! - now()) < 10_000, `${endedAt} ${now()}`);
    }
  },
);

test(
  "has one job for each key of a request, until it fails or a day is over",
  async (store, age) => {
    const requestKey = { key: "one", body: "b" };
    const insert = (id: string) => store.insert({ ...RECORD, id, requestKey });
    const racing = await Promise.allSettled(["a", "b", "c"].map(insert));
    assert.equal(racing.filter(({ status }) => status === "fulfilled").length, 1);
    const { id } = (await store.findRepeated("one"))!;
    assert.deepEqual(await store.findRepeated("one"), { id, body: "b" });
    assert.equal(await store.findRepeated("another"), undefined);
    for (const one of racing) {
      if (one.status !== "rejected") continue;
      assert.ok(one.reason instanceof RepeatedRequestError, String(one.reason));
      assert.deepEqual(one.reason.repeated, { id, body: "b" });
    }
    await store.update(id, { status: "completed" });
    await assert.rejects(insert("d"), RepeatedRequestError);
    await store.update(id, { status: "failed" });
    assert.equal(await store.findRepeated("one"), undefined);
    await insert("e");
    assert.equal((await store.findRepeated("one"))!.id, "e");
    await age("e", REPEAT_MS + 1000);
    assert.equal(await store.findRepeated("one"), undefined);
    await insert("f");
    assert.equal((await store.findRepeated("one"))!.id, "f");
    await store.delete("f");
    await insert("g");
  },
);
