/** What every store must do. */

import { strict as assert } from "node:assert";
import { onStores, STORE_KINDS, type TestRecords } from "../../tests/fakes/job_stores.ts";
import { type JobFilter, type NewRecord, REPEAT_MS, RepeatedRequestError } from "./job_store.ts";

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
