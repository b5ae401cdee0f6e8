import { strict as assert } from "node:assert";
import { FailingStore } from "../../tests/fakes/failing_store.ts";
import { onStores } from "../../tests/fakes/job_stores.ts";
import { until } from "../../tests/fakes/service.ts";
import type { JobStore, NewRecord } from "./job_store.ts";
import { WriteBehindStore } from "./write_behind.ts";

const RECORD: NewRecord = { id: "a", kind: "image", request: 0, summary: null };

function test(title: string, run: (store: JobStore) => Promise<void>): void {
  onStores(["SqliteJobStore in memory", "PostgresJobStore"], title, ({ store }) => run(store));
}

function setUp(kept: JobStore, retryMs = 5) {
  const lines: string[] = [];
  const records = new FailingStore(kept);
  const store = new WriteBehindStore(records, { retryMs, log: (line) => lines.push(line) });
  return { records, store, lines };
}

test("WriteBehindStore tells of an end that cannot be written, and writes it later", async (kept) => {
  const { records, store, lines } = setUp(kept);
  for (const id of ["a", "b"]) await store.insert({ ...RECORD, id });
  await store.update("a", { status: "in_progress" });
  records.failing = ["update"];
  assert.equal(await store.update("a", { progress: 50 }), true);
  assert.equal(await store.update("a", { status: "completed", endedAt: 7 }), true);

  const { status, progress, endedAt } = (await store.get("a"))!;
  assert.deepEqual([status, progress, endedAt], ["completed", 50, 7]);
  assert.equal((await records.get("a"))!.status, "in_progress");
  const ids = async (status: "in_progress" | "completed") =>
    (await store.list({ statuses: [status] })).map(({ id }) => id);
  assert.deepEqual(await ids("in_progress"), []);
  assert.deepEqual(await ids("completed"), ["a"]);
  assert.equal((await store.list())[1]!.status, "completed");
  const counts = (await store.counts()).map(({ status, count }) => [status, count]);
  assert.deepEqual(counts.sort(), [["completed", 1], ["queued", 1]]);
  assert.equal(lines.length, 1, "the log is not filled");
  assert.match(lines[0]!, /^Cannot write the records of jobs: no space is left on the disk/);

  records.failing = [];
  await until(async () => (await records.get("a"))!.status === "completed");
  assert.equal((await records.get("a"))!.progress, 50);
  assert.deepEqual(lines.slice(1), ["Records of jobs are written again; nothing was lost"]);
  await store.close();
});

for (const failing of [[], ["update"]] as const) {
  test(`WriteBehindStore.close() writes what is left, or says that it is lost (${failing})`, async (kept) => {
    const { records, store, lines } = setUp(kept, 60_000);
    await store.insert(RECORD);
    records.failing = ["update"];
    await store.update("a", { status: "completed" });
    records.failing = [...failing, "close"];
    await assert.rejects(store.close());
    const isWritten = failing.length === 0;
    assert.equal((await records.get("a"))!.status, isWritten ? "completed" : "queued");
    assert.match(
      lines.at(-1)!,
      isWritten ? /nothing was lost/ : /^Cannot record the end of 1 jobs/,
    );
    records.failing = [];
    await records.close();
  });
}

test("WriteBehindStore keeps the order of changes that meet a slow write", async (kept) => {
  const { records, store } = setUp(kept);
  await store.insert(RECORD);
  const written: unknown[] = [];
  const gate = Promise.withResolvers<void>();
  const update = records.update.bind(records);
  records.update = async (id, change) => {
    await gate.promise;
    written.push(change);
    return update(id, change);
  };
  const all = [
    store.update("a", { status: "in_progress" }),
    store.update("a", { progress: 1 }),
    store.update("a", { status: "completed", progress: 100 }),
  ];
  gate.resolve();
  assert.deepEqual(await Promise.all(all), [true, true, true]);
  assert.deepEqual(written, [
    { status: "in_progress" },
    { status: "completed", progress: 100 },
  ]);
  await store.close();
});
