import assert from "node:assert/strict";
import { EqualPlaces, type Places, type Turn, Turns } from "./turns.ts";
import type { JobContext, NewJob } from "./job.ts";
import { JobQueue } from "./job_queue.ts";
import { onStores } from "../../tests/fakes/job_stores.ts";
import { until } from "../../tests/fakes/service.ts";
import type { JobStore } from "./job_store.ts";

/** Ids in the order in which they are taken. */
function taken(waiting: Turn[]): string[] {
  const turns = new Turns();
  const order = turns.order(waiting);
  const ids = order.map(() => turns.take(waiting)!.id);
  assert.deepEqual(ids, order);
  return ids;
}

Deno.test("Turns takes the highest priority first, and lets clients alternate within it", () => {
  const waiting = [
    { id: "low 1", client: "a", priority: -1 },
    { id: "low 2", client: "b", priority: -1 },
    { id: "a 1", client: "a" },
    { id: "a 2", client: "a" },
    { id: "b 1", client: "b", priority: 0 },
  ];
  assert.deepEqual(taken(waiting), ["a 1", "b 1", "a 2", "low 2", "low 1"]);
});

Deno.test("Turns counts a low priority as anyone's after ten minutes", () => {
  const now = Date.now();
  const waiting = [
    { id: "new", client: "a", priority: -1, since: now },
    { id: "old", client: "b", priority: -1, since: now - 600_000 },
    { id: "usual", client: "b", since: now },
  ];
  assert.deepEqual(taken(waiting), ["old", "usual", "new"]);
});

function test(title: string, run: (store: JobStore) => Promise<void>): void {
  const kinds = ["SqliteJobStore in memory", "WriteBehindStore on PostgreSQL"] as const;
  onStores(kinds, title, ({ store }) => run(store));
}

/** A queue whose jobs wait to be told their end. */
function setUp(store: JobStore, places: Places, maxQueue = 20) {
  const queue = new JobQueue(store, { maxQueue, places });
  const ends = new Map<string, () => void>();
  const add = async (id: string, more: Pick<Turn, "model"> & { client?: string } = {}) => {
    const job: NewJob<string> = {
      ...{ id, kind: "image", request: null, summary: null, ...more },
      work: ({ signal }: JobContext) =>
        new Promise((resolve, reject) => {
          ends.set(id, () => resolve(id));
          signal.addEventListener("abort", () => reject(signal.reason));
        }),
      toRecord: (outcome) => outcome,
    };
    const { outcome } = await queue.add(job);
    outcome.catch(() => {});
    return { outcome };
  };
  const end = async (id: string) => {
    await until(() => ends.has(id));
    ends.get(id)!();
    await until(() => !queue.running.includes(id));
  };
  return { queue, add, end };
}

for (const count of [2, 3, 4]) {
  test(`JobQueue runs as many jobs as there are places, and clients take turns for each of ${count}`, async (store) => {
    const { queue, add, end } = setUp(store, new EqualPlaces(count));
    const jobs = ["a1", "a2", "a3", "a4", "a5", "b1", "b2"];
    const outcomes = [];
    for (const id of jobs) outcomes.push(await add(id, { client: id[0]! }));
    assert.deepEqual(queue.running, jobs.slice(0, count));
    const order = [...queue.running];
    while (queue.running.length > 0) {
      await end(queue.running[0]!);
      order.push(...queue.running.filter((id) => !order.includes(id)));
    }
    assert.deepEqual(order.slice(count, count + 3), ["b1", `a${count + 1}`, "b2"]);
    assert.deepEqual(await Promise.all(outcomes.map(({ outcome }) => outcome)), jobs);
  });
}

test("JobQueue lets as many jobs wait beside those that run as it is told", async (store) => {
  const { queue, add } = setUp(store, new EqualPlaces(2), 1);
  for (const id of ["a", "b", "c"]) await add(id);
  await assert.rejects(add("d"), { failure: "queue_full" });
  await queue.cancelAndWait("b");
  await add("d");
  assert.deepEqual(queue.running, ["a", "c"]);
  await queue.close(0);
});

test("JobQueue passes over jobs that no place is free for, until one is", async (store) => {
  const free: Record<string, number> = { x: 1, y: 1 };
  let tell = () => {};
  const { queue, add, end } = setUp(store, {
    count: 3,
    hasRoomFor: ({ model }) => free[model!]! > 0,
    take: ({ model }) => {
      free[model!]!--;
      return () => free[model!]!++;
    },
    onChange: (listener) => void (tell = listener),
  });
  for (const [id, model] of [["x1", "x"], ["x2", "x"], ["y1", "y"]]) {
    await add(id!, { model: model! });
  }
  assert.deepEqual(queue.running, ["x1", "y1"]);
  await end("y1");
  assert.deepEqual(queue.running, ["x1"]);
  free.x!++;
  tell();
  assert.deepEqual(queue.running, ["x1", "x2"]);
  await queue.close(0);
});
