import assert from "node:assert/strict";
import { BusyError, onBehalfOf, Slots } from "./slots.ts";

/** Works that end when told, by their names. */
function works(slots: Slots) {
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (name: string, weight = 0, signal?: AbortSignal, client?: string) =>
    slots.run(() => {
      started.push(name);
      const { promise, resolve } = Promise.withResolvers<void>();
      ends.set(name, resolve);
      return promise;
    }, { weight, signal, client });
  const end = async (name: string) => {
    ends.get(name)!();
    await settled();
  };
  return { started, run, end };
}

async function settled(): Promise<void> {
  for (let i = 0; i < 10; i++) await Promise.resolve();
}

Deno.test("Slots start as many as there are, in the order in which they came", async () => {
  const { started, run, end } = works(new Slots({ count: 2 }));
  const all = Promise.all(["a", "b", "c", "d"].map((name) => run(name)));
  await settled();
  assert.deepEqual(started, ["a", "b"]);
  await end("b");
  assert.deepEqual(started, ["a", "b", "c"]);
  for (const name of ["a", "c", "d"]) await end(name);
  await all;
});

Deno.test("Slots hold no more than their weight, except for one that is heavier alone", async () => {
  const { started, run, end } = works(new Slots({ count: 3, weight: 10 }));
  const all = Promise.all([run("a", 6), run("b", 5), run("c", 1), run("d", 99)]);
  await settled();
  assert.deepEqual(started, ["a"], "c does not overtake b");
  await end("a");
  assert.deepEqual(started, ["a", "b", "c"]);
  await end("b");
  assert.deepEqual(started, ["a", "b", "c"]);
  await end("c");
  assert.deepEqual(started, ["a", "b", "c", "d"]);
  await end("d");
  await all;
});

Deno.test("Slots let a work leave the line, and those behind it pass", async () => {
  const { started, run, end } = works(new Slots({ count: 2, weight: 10 }));
  const controller = new AbortController();
  const running = [run("a", 6)];
  const heavy = run("b", 9, controller.signal);
  running.push(run("c", 3));
  await settled();
  assert.deepEqual(started, ["a"]);
  controller.abort(new DOMException("gone", "AbortError"));
  await assert.rejects(heavy, { name: "AbortError" });
  assert.deepEqual(started, ["a", "c"]);
  await end("a");
  await end("c");
  await Promise.all(running);
  await assert.rejects(run("d", 0, controller.signal), { name: "AbortError" });
});

Deno.test("Slots refuse whoever would wait behind too many, and go on after a failure", async () => {
  const slots = new Slots({ count: 1, waiting: 1 });
  const { run, end } = works(slots);
  const running = [run("a"), run("b")];
  await assert.rejects(run("c"), BusyError);
  await end("a");
  await end("b");
  await Promise.all(running);
  await assert.rejects(slots.run(() => Promise.reject(new Error("no"))), /^Error: no$/);
  assert.equal(await slots.run(() => Promise.resolve(7)), 7);
});

Deno.test("Slots take turns by client, whose works keep their order", async () => {
  const slots = new Slots({ count: 1 });
  const { started, run, end } = works(slots);
  const of = (client: string, ...names: string[]) =>
    names.map((name) => run(name, 0, undefined, client));
  const all = [...of("a", "a1", "a2", "a3"), ...of("b", "b1", "b2")];
  const late = onBehalfOf.run("c", () => run("c1"));
  await settled();
  for (const name of ["a1", "b1", "c1", "a2", "b2", "a3"]) {
    assert.equal(started.at(-1), name);
    await end(name);
  }
  await Promise.all([...all, late]);
});

Deno.test("Slots give one client no more than its part of places and line", async () => {
  const slots = new Slots({ count: 3, perClient: 2, waiting: 4 });
  const { started, run, end } = works(slots);
  const by = (client: string) => (name: string) => run(name, 0, undefined, client);
  const all = ["a1", "a2", "a3", "a4"].map(by("a"));
  await assert.rejects(by("a")("a5"), /^BusyError: 2 of yours wait already$/);
  all.push(...["b1", "b2", "b3"].map(by("b")));
  await settled();
  assert.deepEqual(started, ["a1", "a2", "b1"]);
  await assert.rejects(by("c")("c1"), /^BusyError: 4 wait already$/);
  for (const name of ["a1", "a2", "a3", "a4", "b1", "b2", "b3"]) {
    while (!started.includes(name)) await settled();
    await end(name);
  }
  await Promise.all(all);
});
