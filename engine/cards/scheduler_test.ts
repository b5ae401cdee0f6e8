import { strict as assert } from "node:assert";
import { DeviceLostError } from "../../runtime/mod.ts";
import { JobQueue } from "../../server/jobs/job_queue.ts";
import { inLanes } from "../../server/jobs/outputs.ts";
import { SqliteJobStore } from "../../server/jobs/sqlite_store.ts";
import { FakeEngine, gradient } from "../../tests/fakes/engine.ts";
import { VirtualClock } from "../../tests/fakes/virtual_clock.ts";
import type { Frames, GenerateRequest, GenerationControl } from "../types.ts";
import type { Card } from "./card.ts";
import type { ScheduledModel } from "./scheduled_model.ts";
import { Scheduler } from "./scheduler.ts";

/** An engine whose generations take a time on a virtual clock, and which can be lost. */
class TimedEngine extends FakeEngine {
  /** Generations that lose the device, from the next one on. */
  losses = 0;
  #isAtWork = false;

  constructor(readonly clock: VirtualClock, public seconds: number) {
    super();
  }

  override async generate(
    request: GenerateRequest,
    { signal, onFrame, onAudio }: GenerationControl = {},
  ): Promise<Frames> {
    assert.ok(!this.#isAtWork, "a card does one thing at a time");
    this.#isAtWork = true;
    this.requests.push(request);
    try {
      await this.clock.sleep(this.seconds * 1000, signal);
      const data = gradient(request);
      onAudio?.({ sampleRate: 8, channels: [] });
      if (onFrame) await onFrame({ ...request, data });
      if (this.losses-- > 0) throw new DeviceLostError("Cannot go on: the device was lost");
      const { width, height } = request;
      return { width, height, frames: [data], fps: 8, timings: {}, peakBytes: 1 };
    } finally {
      this.#isAtWork = false;
    }
  }
}

const REQUEST = {
  prompt: "a",
  ...{ width: 16, height: 16, numFrames: 1, numInferenceSteps: 4, guidanceScale: 1 },
};

interface Bench {
  readonly clock: VirtualClock;
  readonly cards: Scheduler;
  readonly queue: JobQueue;
  readonly notes: string[];
  readonly engines: readonly TimedEngine[];
  readonly model: ScheduledModel;
  /** Queues a job of so many images; resolves with their pixels. */
  job(id: string, images?: number, client?: string): Promise<Uint8Array[]>;
}

/** Cards whose generations take so many seconds, and a queue. */
async function bench(seconds: readonly number[], on?: (card: Card) => boolean): Promise<Bench> {
  const clock = new VirtualClock();
  const notes: string[] = [];
  const plans = seconds.map((_, gpu) => ({
    gpu,
    name: `card ${gpu}`,
    memoryBytes: 8e9,
    address: {},
  }));
  const cards = new Scheduler(plans, {
    onNote: (line) => notes.push(line),
    now: () => clock.now,
    sleep: (ms) => clock.sleep(ms),
  });
  const engines = seconds.map((each) => new TimedEngine(clock, each));
  const model = await cards.open({
    name: "m",
    on: cards.all.filter(on ?? (() => true)),
    open: ({ id }) => Promise.resolve(engines[id]!),
  });
  await model.settled;
  const queue = new JobQueue(SqliteJobStore.inMemory(), { maxQueue: 1000, places: cards });
  const job = async (id: string, images = 1, client = "") => {
    const { outcome } = await queue.add({
      ...{ id, client, model: "m", kind: "image", request: null, summary: null },
      work: ({ signal }) =>
        inLanes({ count: images, lanes: model.lanes, signal }, async (index, signal) => {
          const request = { ...REQUEST, seed: Number(id.match(/\d+/)) * 100 + index };
          return (await model.generate(request, { job: id, signal })).frames[0]!;
        }),
      toRecord: () => null,
    });
    return await outcome;
  };
  return { clock, cards, queue, notes, engines, model, job };
}

const ids = (count: number) => Array.from({ length: count }, (_, i) => `j${i}`);

const all = ({ clock, job }: Bench, count: number) =>
  clock.until(Promise.all(ids(count).map((id) => job(id))));

Deno.test("Scheduler: cards spread jobs evenly: n cards take an n-th of the time, and give the same", async () => {
  const alone = await bench([10]);
  const expected = await all(alone, 24);
  assert.equal(alone.clock.now, 240_000);
  for (const count of [2, 3, 4]) {
    const several = await bench(Array(count).fill(10));
    assert.deepEqual(await all(several, 24), expected);
    assert.equal(several.clock.now, 240_000 / count);
    assert.deepEqual(
      several.cards.all.map(({ jobsDone }) => jobsDone),
      Array(count).fill(24 / count),
    );
    assert.deepEqual(several.cards.all.map(({ state }) => state), Array(count).fill("idle"));
  }
});

Deno.test("Scheduler: cards spread the images of one job, which come in order", async () => {
  const one = await bench([10]);
  const expected = await one.clock.until(one.job("j0", 8));
  for (const [count, seconds] of [[2, 40], [3, 30], [4, 20]] as const) {
    const several = await bench(Array(count).fill(10));
    assert.deepEqual(await several.clock.until(several.job("j0", 8)), expected);
    assert.equal(several.clock.now, seconds * 1000);
  }
});

Deno.test("Scheduler: cards go to jobs that wait before they go to further images of a job", async () => {
  const two = await bench([10, 10]);
  const many = two.job("j0", 6, "a");
  const ended: string[] = [];
  const other = two.job("j1", 1, "b").then(() => ended.push(`j1 at ${two.clock.now}`));
  await two.clock.until(Promise.all([many, other]));
  assert.deepEqual(ended, ["j1 at 10000"]);
  assert.equal(two.clock.now, 40_000);
});

Deno.test("Scheduler: cards give a slow card less, and nothing that ends sooner elsewhere", async () => {
  const uneven = await bench([1, 1, 8]);
  await all(uneven, 60);
  const [, , slow] = uneven.engines;
  const made = slow!.requests.length;
  // At best the slow one makes 3 or 4 of 60 within 28 s.
  assert.ok(made >= 2 && made <= 5, `the slow card made ${made} of 60`);
  assert.ok(uneven.clock.now <= 34_000, `${uneven.clock.now} ms`);
  await uneven.clock.until(uneven.job("j1000"));
  assert.equal(slow!.requests.length, made, "a job alone goes to a fast card");
});

Deno.test("Scheduler: cards run the job of a lost card again, and open that card again", async () => {
  const two = await bench([10, 10]);
  two.engines[1]!.losses = 1;
  const made = await all(two, 6);
  const alone = await bench([10]);
  assert.deepEqual(made, await all(alone, 6));
  assert.deepEqual(two.cards.all.map(({ isLeftOut }) => isLeftOut), [false, false]);
  assert.match(
    two.notes.join("\n"),
    /GPU 1 \(card 1\) was lost, and is started again: Cannot go on/,
  );
  assert.match(two.notes.join("\n"), /GPU 1 \(card 1\) is back/);
  assert.ok(two.engines[1]!.requests.length > 1, "it works again");
  assert.equal(two.cards.all[1]!.lastError, "Cannot go on: the device was lost");
});

Deno.test("Scheduler: cards leave out a card that is lost three times in a row, but never the last", async () => {
  const two = await bench([10, 10]);
  two.engines[1]!.losses = Infinity;
  assert.equal((await all(two, 12)).length, 12);
  assert.equal(two.cards.all[1]!.state, "lost");
  assert.equal(two.cards.count, 1);
  assert.match(
    two.notes.join("\n"),
    /GPU 1 \(card 1\) is left out .*: it was lost 3 times; 1 goes on/,
  );
  two.engines[0]!.losses = 4;
  for (let i = 0; i < 4; i++) {
    await assert.rejects(two.clock.until(two.job(`j${20 + i}`)), { name: "DeviceLostError" });
  }
  await two.clock.until(two.job("j30"));
});

Deno.test("ScheduledModel.generate() does not make again what has given a frame or sound", async () => {
  for (const taker of ["onFrame", "onAudio"] as const) {
    const { model, clock, engines } = await bench([1, 1]);
    for (const engine of engines) engine.losses = 1;
    const given: unknown[] = [];
    const take = (part: unknown) => void given.push(part);
    const made = model.generate({ ...REQUEST, seed: 1 }, { [taker]: take });
    await assert.rejects(clock.until(made), { name: "DeviceLostError" });
    assert.equal(given.length, 1);
  }
});

Deno.test("ScheduledModel.generate() gives up a request that loses two cards, and leaves others when it is aborted", async () => {
  const { model, clock, engines, cards } = await bench([1, 1, 1]);
  for (const engine of engines) engine.losses = 1;
  const made = model.generate({ ...REQUEST, seed: 1 });
  await assert.rejects(clock.until(made), { name: "DeviceLostError" });
  assert.equal(engines.reduce((sum, { requests }) => sum + requests.length, 0), 2);
  const stop = new AbortController();
  const held = cards.all.map(() => model.generate({ ...REQUEST, seed: 2 }).catch(() => {}));
  const late = model.generate({ ...REQUEST, seed: 3 }, { signal: stop.signal });
  stop.abort();
  await assert.rejects(late, { name: "AbortError" });
  await clock.until(Promise.all(held));
});

Deno.test("Scheduler: cards keep models to the cards that they are pinned to, and hold up no other job", async () => {
  const { clock, cards, queue, model } = await bench([10, 10], ({ id }) => id === 0);
  const other = new TimedEngine(clock, 10);
  const second = await cards.open({
    name: "other",
    on: cards.all.filter(({ id }) => id === 1),
    open: () => Promise.resolve(other),
  });
  const began: string[] = [];
  const outcomes = [];
  for (const [id, name] of [["a", "m"], ["b", "m"], ["c", "other"]] as const) {
    const { outcome } = await queue.add({
      ...{ id, model: name, kind: "image", request: null, summary: null },
      work: async ({ signal }) => {
        began.push(`${id} at ${clock.now}`);
        await (name === "m" ? model : second)
          .generate({ ...REQUEST, seed: 1 }, { signal, job: id });
      },
      toRecord: () => null,
    });
    outcomes.push(outcome);
  }
  await clock.until(Promise.all(outcomes));
  assert.deepEqual(began, ["a at 0", "c at 0", "b at 10000"]);
});
