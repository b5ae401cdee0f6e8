import { strict as assert } from "node:assert";
import { ApiError } from "../contract/errors.ts";
import type { JobContext, NewJob } from "./job.ts";
import type { JobChange } from "./job_store.ts";
import { JobQueue } from "./job_queue.ts";
import { FailingStore } from "../../tests/fakes/failing_store.ts";
import { onStores } from "../../tests/fakes/job_stores.ts";
import { until } from "../../tests/fakes/service.ts";
import type { JobStore } from "./job_store.ts";
import { WriteBehindStore } from "./write_behind.ts";

/** A test that holds wherever the records are. */
function test(title: string, run: (store: JobStore) => Promise<void>): void {
  const kinds = ["SqliteJobStore in memory", "WriteBehindStore on PostgreSQL"] as const;
  onStores(kinds, title, ({ store }) => run(store));
}

function newQueue(store: JobStore, maxQueue = 8): JobQueue {
  return new JobQueue(store, { maxQueue });
}

function job<T>(id: string, work: (context: JobContext) => Promise<T>): NewJob<T> {
  const record = { id, kind: "image", request: null, summary: null };
  return { ...record, work, toRecord: (outcome) => ({ outcome }) };
}

/** Work that waits to be told its end, and takes an abort for one. */
function gate() {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const work = ({ signal }: JobContext) => {
    signal.addEventListener("abort", () => reject(signal.reason));
    return promise;
  };
  return { work, open: () => resolve("done"), fail: reject };
}

/** Queues jobs one after the other; gives what becomes of them. */
async function outcomes<T>(queue: JobQueue, jobs: readonly NewJob<T>[]): Promise<Promise<T>[]> {
  const queued: { outcome: Promise<T> }[] = [];
  for (const job of jobs) queued.push(await queue.add(job));
  return queued.map(({ outcome }) => outcome);
}

const done = (id: string) => job(id, () => Promise.resolve(id));

test("JobQueue runs jobs one by one in their order and records their ends", async (store) => {
  const queue = newQueue(store);
  const order: string[] = [];
  const work = (name: string) => async () => {
    order.push(`${name} begins`);
    await new Promise((resolve) => setTimeout(resolve, 1));
    order.push(`${name} ends`);
    return name;
  };
  const made = await Promise.all(await outcomes(queue, ["a", "b"].map((id) => job(id, work(id)))));
  assert.deepEqual(made, ["a", "b"]);
  assert.deepEqual(order, ["a begins", "a ends", "b begins", "b ends"]);
  const { status, progress, result, startedAt, endedAt } = (await store.get("a"))!;
  assert.deepEqual([status, progress, result], ["completed", 100, { outcome: "a" }]);
  assert.ok(startedAt! <= endedAt!);
});

test("JobQueue records progress in whole percent that never falls, and 100 at the end alone", async (store) => {
  const queue = newQueue(store);
  const seen: number[] = [];
  const { outcome } = await queue.add(job("a", async ({ progress }) => {
    for (const fraction of [0.101, 0.5, 0.3, 2, -1]) {
      progress({ fraction });
      seen.push((await store.get("a"))!.progress);
    }
  }));
  await outcome;
  assert.deepEqual(seen, [10, 50, 50, 99, 99]);
});

test("JobQueue goes on after a job that fails, and hides why from its record", async (store) => {
  const queue = newQueue(store);
  const refused = new ApiError(400, "Cannot do it", { code: "no" });
  const [fault, refusal, fine] = await outcomes(queue, [
    job<string>("a", () => Promise.reject(new Error("secret"))),
    job<string>("b", () => Promise.reject(refused)),
    done("c"),
  ]);
  await assert.rejects(fault!, /secret/);
  await assert.rejects(refusal!, ApiError);
  assert.equal(await fine, "c");
  const { status, error } = (await store.get("a"))!;
  assert.equal(status, "failed");
  assert.equal(error!.code, "internal_error");
  assert.ok(!error!.message.includes("secret"));
  assert.deepEqual((await store.get("b"))!.error, { code: "no", message: "Cannot do it" });
});

test("JobQueue refuses at once when too many wait; the one that runs does not count", async (store) => {
  const queue = newQueue(store, 1);
  const first = gate();
  const queued = await outcomes(queue, [job("a", first.work), done("b")]);
  await assert.rejects(queue.add(done("c")), { failure: "queue_full" });
  assert.equal(await store.get("c"), undefined);
  first.open();
  await Promise.all(queued);
  await (await queue.add(done("d"))).outcome;
});

test("JobQueue leaves room for other clients, however much one queues", async (store) => {
  const queue = newQueue(store, 20);
  const first = gate();
  const queued = await outcomes(queue, [{ ...job("first", first.work), client: "a" }]);
  const add = async (client: string, count: number) => {
    for (let i = 0; i < count; i++) {
      queued.push((await queue.add({ ...done(`${client}${i}`), client })).outcome);
    }
  };
  await add("a", 10);
  await assert.rejects(add("a", 1), (error: Error) => {
    assert.match(error.message, /: 10 of yours wait already, and the rest of the queue is for oth/);
    return true;
  });
  await add("b", 8);
  await add("c", 2);
  await assert.rejects(add("d", 1), /20 wait already, which is the limit/);
  first.open();
  await Promise.all(queued);
});

test("JobQueue refuses when too many wait, though none runs yet", async (store) => {
  const queue = new JobQueue(store, {
    maxQueue: 1,
    ready: Promise.withResolvers<void>().promise,
  });
  const added = ["a", "b", "c"].map((id) => queue.add(done(id)));
  const how = (await Promise.allSettled(added)).map(({ status }) => status);
  assert.deepEqual(how, ["fulfilled", "fulfilled", "rejected"]);
  await queue.close(0);
});

test("JobQueue.cancel() ends a job that runs or waits, and tells of no other", async (store) => {
  const queue = newQueue(store);
  const queued = await outcomes(queue, [job("a", gate().work), done("b")]);
  assert.equal(await queue.cancel("b"), true);
  assert.equal((await store.get("b"))!.status, "cancelled");
  assert.equal(await queue.cancelAndWait("a"), true);
  for (const outcome of queued) await assert.rejects(outcome, { name: "AbortError" });
  assert.equal(await queue.cancel("a"), false);
  assert.equal((await store.get("a"))!.status, "cancelled");
});

test("JobQueue takes a job back that is cancelled while it is recorded", async (store) => {
  const queue = newQueue(store);
  const added = queue.add(done("a"));
  const cancelled = queue.cancel("a");
  await assert.rejects((await added).outcome, { name: "AbortError" });
  assert.equal(await cancelled, true);
  assert.equal((await store.get("a"))!.status, "cancelled");
});

test("JobQueue discards what a cancelled job made in spite of its signal", async (store) => {
  const queue = newQueue(store);
  const { promise, resolve } = Promise.withResolvers<string>();
  const discarded: string[] = [];
  const { outcome } = await queue.add({
    ...job("a", () => promise),
    discard: (outcome) => Promise.resolve(void discarded.push(outcome)),
  });
  await queue.cancel("a");
  resolve("too late");
  await assert.rejects(outcome, { name: "AbortError" });
  assert.deepEqual(discarded, ["too late"]);
  assert.equal((await store.get("a"))!.status, "cancelled");
});

test("JobQueue discards what a job made whose record is gone", async (store) => {
  const queue = newQueue(store);
  const first = gate();
  const discarded: string[] = [];
  const { outcome } = await queue.add({
    ...job("a", first.work),
    discard: (outcome) => Promise.resolve(void discarded.push(outcome)),
  });
  await store.delete("a");
  first.open();
  await assert.rejects(outcome, { name: "AbortError" });
  assert.deepEqual(discarded, ["done"]);
});

test("JobQueue does not take a job whose signal has fired", async (store) => {
  const queue = newQueue(store);
  const signal = AbortSignal.abort();
  await assert.rejects(queue.add({ ...done("a"), signal }), { name: "AbortError" });
  assert.equal(await store.get("a"), undefined);
});

test("JobQueue.close() aborts what outlasts the grace, as interrupted", async (store) => {
  const queue = newQueue(store);
  const queued = await outcomes(queue, [job("a", gate().work), done("b")]);
  const ended = Promise.allSettled(queued);
  await queue.close(5);
  for (const outcome of await ended) {
    assert.equal(outcome.status, "rejected");
    assert.equal((outcome as PromiseRejectedResult).reason.failure, "shutting_down");
  }
  for (const id of ["a", "b"]) {
    const { status, error } = (await store.get(id))!;
    assert.deepEqual([status, error?.code], ["failed", "interrupted"]);
  }
  await assert.rejects(queue.add(done("c")), { failure: "shutting_down" });
});

test("JobQueue lets clients take turns", async (store) => {
  const queue = newQueue(store, 10);
  const order: string[] = [];
  const first = gate();
  const jobs = [["a1", "a"], ["a2", "a"], ["b1", "b"], ["a3", "a"], ["b2", "b"], ["c1", "c"]];
  const queued = await outcomes(queue, [
    { ...job("a0", first.work), client: "a" },
    ...jobs.map(([id, client]) => ({
      ...job(id!, () => {
        order.push(id!);
        return Promise.resolve("");
      }),
      client: client!,
    })),
  ]);
  const expected = ["b1", "c1", "a1", "b2", "a2", "a3"];
  assert.deepEqual(queue.order(), expected);
  first.open();
  await Promise.all(queued);
  assert.deepEqual(order, expected);
});

test("JobQueue tells watchers what happens, up to the end", async (store) => {
  const queue = newQueue(store);
  const events: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const { outcome } = await queue.add(job("a", async ({ progress, preview }) => {
    await promise;
    progress({ fraction: 0.5, step: 1 });
    preview({ output: 0, index: 0, bytes: new Uint8Array(1), contentType: "image/png" });
  }));
  queue.watch("a", () => {
    throw new Error("a watcher's own fault");
  });
  queue.watch("a", (event) => events.push(event.type === "status" ? event.status : event.type));
  queue.watch("a", () => events.push("never"))();
  resolve();
  await outcome;
  assert.deepEqual(events.filter((event) => event !== "in_progress"), [
    "progress",
    "preview",
    "completed",
  ]);
});

for (const isDiskFull of [false, true]) {
  onStores(
    ["SqliteJobStore in memory", "PostgresJobStore"],
    `JobQueue that resumes leaves what is unfinished queued, and tells of no end, disk full: ${isDiskFull}`,
    async ({ store: kept }) => {
      const records = new FailingStore(kept);
      const store = new WriteBehindStore(records, { retryMs: 60_000 });
      const ends: string[] = [];
      const queue = new JobQueue(store, {
        maxQueue: 8,
        resumes: true,
        onEnd: (id) => ends.push(id),
      });
      const queued = await outcomes(queue, ["a", "b"].map((id) => job(id, gate().work)));
      await until(async () => (await records.get("a"))!.status === "in_progress");
      if (isDiskFull) records.failing = ["update"];
      const ended = Promise.allSettled(queued);
      await queue.close(5);
      await ended;
      assert.deepEqual(ends, []);
      for (const id of ["a", "b"]) assert.equal((await store.get(id))!.status, "queued");
      await store.close();
    },
  );
}

test("JobQueue runs nothing before it is ready, but lists and cancels", async (store) => {
  const ready = Promise.withResolvers<void>();
  const queue = new JobQueue(store, { maxQueue: 8, ready: ready.promise });
  const [a, b] = await outcomes(queue, [done("a"), done("b")]);
  assert.deepEqual(queue.running, []);
  assert.deepEqual(queue.order(), ["a", "b"]);
  await queue.cancel("a");
  await assert.rejects(a!, { name: "AbortError" });
  ready.resolve();
  assert.equal(await b, "b");
});

test("JobQueue prepares jobs beside the one that runs, and one that stalls holds no other", async (store) => {
  const queue = newQueue(store);
  const stalled = Promise.withResolvers<JobChange>();
  const [stuck, second, third] = await Promise.all([
    queue.add({ ...done("stuck"), prepare: () => stalled.promise }),
    queue.add({ ...done("second"), prepare: () => Promise.resolve({ revisedPrompt: "fine" }) }),
    queue.add(done("third")),
  ]);
  assert.equal(await second.outcome, "second");
  assert.equal(await third.outcome, "third");
  await second.prepared;
  assert.equal((await store.get("second"))!.revisedPrompt, "fine");
  assert.equal((await store.get("stuck"))!.status, "queued");
  stalled.resolve({});
  assert.equal(await stuck.outcome, "stuck");
});

test("JobQueue ends a job whose preparation fails or is cancelled, without a turn", async (store) => {
  const queue = newQueue(store);
  const work = () => Promise.reject(new Error("it had its turn"));
  const refused = new ApiError(504, "Prompt enhancer timed out", { code: "late" });
  const late = await queue.add({ ...job("a", work), prepare: () => Promise.reject(refused) });
  await assert.rejects(late.prepared, refused);
  await assert.rejects(late.outcome, refused);
  assert.equal((await store.get("a"))!.error!.code, "late");

  const deaf = { ...job("b", work), prepare: () => new Promise<never>(() => {}) };
  const stuck = await queue.add(deaf);
  await queue.cancel("b");
  await assert.rejects(stuck.prepared, { name: "AbortError" });
  await assert.rejects(stuck.outcome, { name: "AbortError" });
  assert.equal((await store.get("b"))!.status, "cancelled");
});

test("JobQueue measures jobs by no clock that may be set back meanwhile", async (store) => {
  const queue = newQueue(store);
  const { now } = Date;
  const work = () => {
    Date.now = () => now() - 1e8;
    return Promise.resolve("done");
  };
  try {
    const [outcome] = await outcomes(queue, [job("a", work)]);
    assert.equal(await outcome, "done");
    assert.ok(queue.secondsPerJob > 0, `${queue.secondsPerJob}`);
  } finally {
    Date.now = now;
  }
});
