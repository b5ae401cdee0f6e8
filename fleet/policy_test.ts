import { strict as assert } from "node:assert";
import fc from "fast-check";
import {
  choose,
  clockOf,
  DEFAULT_RULES,
  type FreeWorker,
  giveTurn,
  type WaitingJob,
} from "./policy.ts";

const NOW = 1_000_000;

function job(id: string, own: Partial<WaitingJob> = {}): WaitingJob {
  return {
    ...{ id, turn: 0, priority: 0, model: "a", loras: [], memory: 0 },
    ...{ queuedAt: NOW - 5_000, attempts: 0, passedAt: null, ...own },
  };
}

function worker(own: Partial<FreeWorker> = {}): FreeWorker {
  return {
    ...{ models: ["a", "b"], loaded: { model: "a", loras: [] } },
    ...{ memory: 100, warmElsewhere: [], ...own },
  };
}

/** The job that is taken, and those that are passed over. */
function taken(jobs: readonly WaitingJob[], own: Partial<FreeWorker> = {}): string {
  const { job, passed } = choose(jobs, worker(own), NOW);
  return [job ?? "none", ...passed].join(" ");
}

Deno.test("choose() takes the lowest turn, then who has waited longest, then by id", () => {
  assert.equal(taken([]), "none");
  assert.equal(taken([job("x", { turn: 2 }), job("y", { turn: 1 })]), "y");
  assert.equal(taken([job("x"), job("y", { queuedAt: NOW - 6_000 })]), "y");
  assert.equal(taken([job("y"), job("x")]), "x");
});

Deno.test("choose() takes a higher priority first, until the others are overdue", () => {
  const high = job("high", { turn: 9, priority: 1 });
  assert.equal(taken([job("low"), high]), "high");
  const late = job("late", { queuedAt: NOW - DEFAULT_RULES.overdueMs });
  assert.equal(taken([late, high]), "late");
  assert.equal(taken([{ ...late, turn: 10 }, high]), "high", "overdue ones keep their turns");
  const other = { ...high, model: "b" };
  assert.equal(taken([job("low"), other]), "high", "priority goes before affinity");
});

Deno.test("choose() takes only models that are served and fit", () => {
  assert.equal(taken([job("x", { model: "c" }), job("y", { turn: 1 })]), "y");
  assert.equal(taken([job("x", { memory: 101 }), job("y", { turn: 1, memory: 100 })]), "y");
  assert.equal(taken([job("x", { memory: 101 })]), "none");
  assert.equal(taken([job("x", { memory: 1e12 })], { memory: Infinity }), "x");
});

Deno.test("choose() prefers what is loaded, and names the jobs that it passes over", () => {
  const other = job("other", { model: "b" });
  const same = job("same", { turn: 5 });
  assert.equal(taken([other, same]), "same other");
  assert.equal(taken([other, same], { loaded: undefined }), "other");
  const styled = job("styled", { turn: 1, loras: ["s"] });
  assert.equal(taken([styled, same]), "same styled");
  assert.equal(taken([other, styled]), "styled other", "a LoRA is loaded sooner than a model");
  const loaded = { model: "a", loras: ["s"] };
  assert.equal(taken([job("plain"), styled], { loaded }), "styled plain");
  assert.equal(taken([job("plain"), { ...styled, loras: ["s", "t"] }], { loaded }), "plain");
});

Deno.test("choose() passes a job over for no longer than the rules say", () => {
  const { patienceMs, loraPatienceMs } = DEFAULT_RULES;
  const same = job("same", { turn: 5 });
  const other = (ms: number) => job("other", { model: "b", passedAt: NOW - ms });
  assert.equal(taken([other(patienceMs - 1), same]), "same other");
  assert.equal(taken([other(patienceMs), same]), "other");
  const styled = (ms: number) => job("styled", { loras: ["s"], passedAt: NOW - ms });
  assert.equal(taken([styled(loraPatienceMs - 1), same]), "same styled");
  assert.equal(taken([styled(loraPatienceMs), same]), "styled");
  assert.equal(taken([job("first", { turn: -1 }), other(patienceMs), same]), "first");
  assert.equal(
    taken([job("b", { turn: -1, model: "b" }), { ...other(patienceMs), loras: ["s"] }, same]),
    "b",
    "those before it may still go first, those after it may not",
  );
});

Deno.test("choose() never passes over a job whose worker died", () => {
  const again = job("again", { model: "b", attempts: 1, queuedAt: NOW });
  assert.equal(taken([again, job("same", { turn: 5 })], { warmElsewhere: ["b"] }), "again");
});

Deno.test("choose() leaves a new job to free workers that have its model loaded", () => {
  const fresh = (age: number) => job("fresh", { model: "b", queuedAt: NOW - age });
  const warm = worker({ warmElsewhere: ["b"] });
  assert.deepEqual(choose([fresh(400)], warm, NOW), { job: undefined, passed: [], retryMs: 600 });
  assert.equal(choose([fresh(1000)], warm, NOW).job, "fresh");
  assert.equal(choose([fresh(0)], worker(), NOW).job, "fresh", "nobody else has it loaded");
  const old = job("old", { turn: 5, model: "b" });
  assert.deepEqual(choose([fresh(400), old], warm, NOW), {
    job: "old",
    passed: ["fresh"],
    retryMs: undefined,
  });
});

Deno.test("giveTurn() spaces the jobs of a client by what they cost, from where the queue is", () => {
  assert.deepEqual(giveTurn(undefined, 7, 3), { turn: 7, next: 10 });
  assert.deepEqual(giveTurn(10, 7, 3), { turn: 10, next: 13 });
  assert.deepEqual(giveTurn(10, 20, 3), { turn: 20, next: 23 });
});

Deno.test("clockOf() is the lowest of the last turns, and the end of all turns before any", () => {
  assert.equal(clockOf([5, 900, 6]), 5);
  assert.equal(clockOf([], 12), 12);
  assert.equal(clockOf([]), 0);
});

/** Clients queue jobs of given lengths at once; one worker takes them all. */
function runAll(clients: Record<string, number[]>): string[] {
  const waiting: WaitingJob[] = [];
  for (const [client, lengths] of Object.entries(clients)) {
    let next: number | undefined;
    for (const [index, seconds] of lengths.entries()) {
      const given = giveTurn(next, 0, seconds);
      next = given.next;
      waiting.push(job(`${client}${index}`, { turn: given.turn }));
    }
  }
  const order: string[] = [];
  while (waiting.length > 0) {
    const { job: id } = choose(waiting, worker(), NOW);
    order.push(id!);
    waiting.splice(waiting.findIndex((other) => other.id === id), 1);
  }
  return order;
}

Deno.test("choose() lets clients alternate where jobs are alike, and gives them equal time", () => {
  assert.equal(runAll({ a: [1, 1, 1, 1], b: [1, 1] }).join(" "), "a0 b0 a1 b1 a2 a3");
  assert.equal(runAll({ a: [4, 4], b: [1, 1, 1, 1, 1] }).join(" "), "a0 b0 b1 b2 b3 a1 b4");
});

Deno.test("choose() starves no job, whatever else waits", () => {
  const anyJob = fc.record({
    ...{ turn: fc.nat(9), priority: fc.nat(2), model: fc.constantFrom("a", "b") },
    loras: fc.constantFrom<string[]>([], ["s"]),
    memory: fc.constantFrom(0, 1000),
  });
  fc.assert(fc.property(fc.array(anyJob, { maxLength: 12 }), anyJob, (others, own) => {
    const fits = own.memory <= 100;
    let waiting = [
      job("own", { ...own, queuedAt: NOW }),
      ...others.map((other, index) => job(`${index}`, { ...other, queuedAt: NOW })),
    ];
    // For each job that is taken, one with the same turn and model comes after it.
    let loaded: FreeWorker["loaded"] = { model: "a", loras: [] };
    for (let step = 0; step < 400; step++) {
      const now = NOW + step * 10_000;
      const choice = choose(waiting, worker({ loaded }), now);
      if (choice.job === "own") return fits;
      const picked = waiting.find(({ id }) => id === choice.job);
      if (picked === undefined) return !fits;
      loaded = { model: picked.model, loras: picked.loras };
      const passed = new Set(choice.passed);
      waiting = waiting.filter((other) => other !== picked).map((other) =>
        passed.has(other.id) ? { ...other, passedAt: other.passedAt ?? now } : other
      );
      waiting.push({ ...picked, id: `${picked.id}'`, turn: picked.turn + 1, queuedAt: now });
    }
    return !fits;
  }));
});
