import { strict as assert } from "node:assert";
import { ApiError } from "../contract/errors.ts";
import type { JobContext, NewJob } from "./job.ts";
import { JobQueue } from "./job_queue.ts";
import { JobStore } from "./job_store.ts";

function setUp(maxQueue = 8) {
  const store = new JobStore();
  return { store, queue: new JobQueue(store, { maxQueue }) };
}

function job<T>(id: string, work: (context: JobContext) => Promise<T>): NewJob<T> {
  return { id, kind: "image", request: null, work, toRecord: (outcome) => ({ outcome }) };
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

Deno.test("JobQueue runs jobs one by one in their order and records their ends", async () => {
  const { store, queue } = setUp();
  const order: string[] = [];
  const work = (name: string) => async () => {
    order.push(`${name} begins`);
    await new Promise((resolve) => setTimeout(resolve, 1));
    order.push(`${name} ends`);
    return name;
  };
  const outcomes = await Promise.all(["a", "b"].map((id) => queue.run(job(id, work(id)))));
  assert.deepEqual(outcomes, ["a", "b"]);
  assert.deepEqual(order, ["a begins", "a ends", "b begins", "b ends"]);
  const { status, progress, result, startedAt, endedAt } = store.get("a")!;
  assert.deepEqual([status, progress, result], ["completed", 100, { outcome: "a" }]);
  assert.ok(startedAt! <= endedAt!);
});

Deno.test("JobQueue records progress in whole percent that never falls", async () => {
  const { store, queue } = setUp();
  const seen: number[] = [];
  await queue.run(job("a", ({ progress }) => {
    for (const fraction of [0.101, 0.5, 0.3, 2, -1]) {
      progress({ fraction });
      seen.push(store.get("a")!.progress);
    }
    return Promise.resolve();
  }));
  assert.deepEqual(seen, [10, 50, 50, 100, 100]);
});

Deno.test("JobQueue goes on after a job that fails, and hides why from its record", async () => {
  const { store, queue } = setUp();
  const fault = queue.run(job("a", () => Promise.reject(new Error("secret"))));
  const refusal = queue.run(
    job("b", () => Promise.reject(new ApiError(400, "Cannot do it", { code: "no" }))),
  );
  const fine = queue.run(job("c", () => Promise.resolve("c")));
  await assert.rejects(fault, /secret/);
  await assert.rejects(refusal, ApiError);
  assert.equal(await fine, "c");
  assert.equal(store.get("a")!.status, "failed");
  assert.equal(store.get("a")!.error!.code, "internal_error");
  assert.ok(!store.get("a")!.error!.message.includes("secret"));
  assert.deepEqual(store.get("b")!.error, { code: "no", message: "Cannot do it" });
});

Deno.test("JobQueue refuses at once when too many wait; the one that runs does not count", async () => {
  const { store, queue } = setUp(1);
  const first = gate();
  const running = queue.run(job("a", first.work));
  const waiting = queue.run(job("b", () => Promise.resolve()));
  assert.throws(() => queue.run(job("c", () => Promise.resolve())), { status: 429 });
  assert.equal(store.get("c"), undefined);
  first.open();
  await Promise.all([running, waiting]);
  await queue.run(job("d", () => Promise.resolve()));
});

Deno.test("JobQueue.cancel() ends a job that runs or waits, and tells of no other", async () => {
  const { store, queue } = setUp();
  const first = gate();
  const running = queue.run(job("a", first.work));
  const waiting = queue.run(job("b", () => Promise.resolve()));
  assert.equal(queue.cancel("b"), true);
  assert.equal(queue.cancel("a"), true);
  for (const promise of [running, waiting]) await assert.rejects(promise, { name: "AbortError" });
  assert.equal(queue.cancel("a"), false);
  for (const id of ["a", "b"]) assert.equal(store.get(id)!.status, "cancelled");
});

Deno.test("JobQueue takes a job as cancelled that finishes in spite of its signal", async () => {
  const { store, queue } = setUp();
  const { promise, resolve } = Promise.withResolvers<string>();
  const running = queue.run(job("a", () => promise));
  queue.cancel("a");
  resolve("too late");
  await assert.rejects(running, { name: "AbortError" });
  assert.equal(store.get("a")!.status, "cancelled");
});

Deno.test("JobQueue discards what a cancelled job made in spite of its signal", async () => {
  const { queue } = setUp();
  const { promise, resolve } = Promise.withResolvers<string>();
  const discarded: string[] = [];
  const running = queue.run({
    ...job("a", () => promise),
    discard: (outcome) => Promise.resolve(void discarded.push(outcome)),
  });
  queue.cancel("a");
  resolve("too late");
  await assert.rejects(running, { name: "AbortError" });
  assert.deepEqual(discarded, ["too late"]);
});

Deno.test("JobQueue does not take a job whose signal has fired", () => {
  const { store, queue } = setUp();
  const signal = AbortSignal.abort();
  assert.throws(() => queue.run({ ...job("a", () => Promise.resolve()), signal }), {
    name: "AbortError",
  });
  assert.equal(store.get("a"), undefined);
});

Deno.test("JobQueue.close() aborts what outlasts the grace, as interrupted", async () => {
  const { store, queue } = setUp();
  const first = gate();
  const running = queue.run(job("a", first.work));
  const waiting = queue.run(job("b", () => Promise.resolve()));
  const ended = Promise.allSettled([running, waiting]);
  await queue.close(5);
  for (const outcome of await ended) {
    assert.equal(outcome.status, "rejected");
    assert.equal((outcome as PromiseRejectedResult).reason.status, 503);
  }
  for (const id of ["a", "b"]) {
    assert.equal(store.get(id)!.status, "failed");
    assert.equal(store.get(id)!.error!.code, "interrupted");
  }
  assert.throws(() => queue.run(job("c", () => Promise.resolve())), { status: 503 });
});

Deno.test("JobQueue lets clients take turns", async () => {
  const { queue } = setUp(10);
  const order: string[] = [];
  const first = gate();
  const running = queue.run({ ...job("a0", first.work), client: "a" });
  const jobs = [["a1", "a"], ["a2", "a"], ["b1", "b"], ["a3", "a"], ["b2", "b"], ["c1", "c"]];
  const ends = jobs.map(([id, client]) =>
    queue.run({
      ...job(id!, () => {
        order.push(id!);
        return Promise.resolve();
      }),
      client: client!,
    })
  );
  const expected = ["b1", "c1", "a1", "b2", "a2", "a3"];
  assert.deepEqual(queue.order(), expected);
  first.open();
  await Promise.all([running, ...ends]);
  assert.deepEqual(order, expected);
});

Deno.test("JobQueue tells watchers what happens, up to the end", async () => {
  const { queue } = setUp();
  const events: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = queue.run(job("a", async ({ progress, preview }) => {
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
  await done;
  assert.deepEqual(events, ["progress", "preview", "completed"]);
});

Deno.test("JobQueue that resumes leaves what is unfinished queued, and tells of no end", async () => {
  for (const isDiskFull of [false, true]) {
    const store = new JobStore();
    const ends: string[] = [];
    const queue = new JobQueue(store, {
      maxQueue: 8,
      resumes: true,
      onEnd: (id) => ends.push(id),
    });
    const promises = ["a", "b"].map((id) => queue.run(job(id, gate().work)));
    if (isDiskFull) {
      store.update = () => {
        throw new Error("database or disk is full");
      };
    }
    const ended = Promise.allSettled(promises);
    await queue.close(5);
    await ended;
    assert.deepEqual(ends, [], `disk full: ${isDiskFull}`);
    assert.equal(store.get("a")!.status, isDiskFull ? "in_progress" : "queued");
    assert.equal(store.get("b")!.status, "queued");
  }
});

Deno.test("JobQueue runs nothing before it is ready, but lists and cancels", async () => {
  const ready = Promise.withResolvers<void>();
  const queue = new JobQueue(new JobStore(), { maxQueue: 8, ready: ready.promise });
  const [a, b] = ["a", "b"].map((id) => queue.run(job(id, () => Promise.resolve(id))));
  assert.equal(queue.running, undefined);
  assert.deepEqual(queue.order(), ["a", "b"]);
  queue.cancel("a");
  await assert.rejects(a!, { name: "AbortError" });
  ready.resolve();
  assert.equal(await b, "b");
});
