import assert from "node:assert/strict";
import { FakeEngine } from "../../tests/fakes/engine.ts";
import type { GenerateRequest, ModelInfo } from "../types.ts";
import { Scheduler } from "./scheduler.ts";

const REQUEST: GenerateRequest = {
  ...{ prompt: "a", width: 16, height: 16, numFrames: 1, seed: 1 },
  ...{ numInferenceSteps: 2, guidanceScale: 1 },
};

/** Models of which nothing is loaded, on one card. */
async function share(weights: Record<string, number>, deviceBytes?: number, stepMs = 0) {
  const notes: string[] = [];
  const cards = new Scheduler([{ gpu: 0, name: "", memoryBytes: 0, address: {} }], {
    onNote: (line) => notes.push(line),
    isShared: true,
  });
  const models = await Promise.all(
    Object.entries(weights).map(async ([name, weightBytes]) => {
      const info: Partial<ModelInfo> = {
        weightBytes,
        ...(deviceBytes === undefined ? {} : { deviceBytes }),
      };
      const engine = new FakeEngine({ info, stepMs });
      engine.isLoaded = false;
      const open = () => Promise.resolve(engine);
      return { engine, shared: await cards.open({ name, on: cards.all, open }) };
    }),
  );
  const loaded = () => models.map(({ engine }) => Number(engine.isLoaded)).join("");
  return { notes, loaded, models, card: cards.all[0]!, all: models.map(({ shared }) => shared) };
}

Deno.test("Card loads a model for its request, and the others leave where nobody knows the memory", async () => {
  const { all: [a, b], loaded, notes } = await share({ a: 1, b: 1 });
  assert.equal(a!.residence, "unloaded");
  await a!.generate(REQUEST);
  assert.equal(loaded(), "10");
  await b!.generate(REQUEST);
  assert.equal(loaded(), "01");
  assert.deepEqual(notes, ["Unloaded a: b takes its place"]);
  await a!.load();
  assert.equal(loaded(), "10");
  await a!.unload();
  assert.deepEqual([loaded(), a!.residence], ["00", "unloaded"]);
});

Deno.test("Card keeps small models beside each other, and lets those leave that were used the longest ago", async () => {
  const { all: [a, b, c], models, loaded } = await share({ a: 10, b: 10, c: 10 }, 80);
  for (const model of [a, b, c]) await model!.generate(REQUEST);
  // A quarter of 80 is for those that rest.
  assert.equal(loaded(), "111");
  assert.deepEqual(models.map(({ engine }) => engine.limitBytes), [60, 60, 60]);
  const tight = await share({ a: 8, b: 8, c: 8, d: 8 }, 68);
  for (const i of [0, 1, 0, 2]) await tight.all[i]!.generate(REQUEST);
  assert.equal(tight.loaded(), "1110");
  await tight.all[3]!.generate(REQUEST);
  assert.equal(tight.loaded(), "1011", "b was used the longest ago");
});

Deno.test("Card lets a large model have the device alone, with all of its memory", async () => {
  const { all: [small, large], models, loaded } = await share({ small: 10, large: 50 }, 80);
  await small!.generate(REQUEST);
  await large!.generate(REQUEST);
  assert.equal(loaded(), "01");
  assert.deepEqual(models.map(({ engine }) => engine.limitBytes), [60, Infinity]);
  await small!.generate(REQUEST);
  assert.equal(loaded(), "10");
});

Deno.test("Card lets a model that was loaded alone have all memory, until it is loaded beside others", async () => {
  const cards = new Scheduler([{ gpu: 0, name: "", memoryBytes: 0, address: {} }]);
  const add = async (name: string, isLoaded: boolean) => {
    const engine = new FakeEngine({ info: { weightBytes: 10, deviceBytes: 80 } });
    engine.isLoaded = isLoaded;
    const open = () => Promise.resolve(engine);
    return { engine, model: await cards.open({ name, on: cards.all, open }) };
  };
  const first = await add("first", true);
  assert.equal(first.engine.limitBytes, Infinity);
  const second = await add("second", false);
  assert.deepEqual([first.engine.limitBytes, second.engine.limitBytes], [60, 60]);
  await second.model.generate(REQUEST);
  assert.ok(first.engine.isLoaded, "it rests");
  await first.model.generate(REQUEST);
  assert.ok(!second.engine.isLoaded, "the first may take all of the memory");
  await first.model.unload();
  await first.model.generate(REQUEST);
  await second.model.generate(REQUEST);
  await first.model.generate(REQUEST);
  assert.ok(second.engine.isLoaded);
  await cards.remove("second");
  assert.ok(second.engine.closed);
  assert.equal(second.model.info.weightBytes, 10, "what was removed still says what it was");
  await assert.rejects(second.model.generate(REQUEST), /no GPU is left that has the model/);
  await first.model.generate(REQUEST);
});

Deno.test("Card takes no model away in the middle of its work", async () => {
  const { all: [a], card, models, loaded } = await share({ a: 1, b: 1 }, undefined, 10);
  const order: string[] = [];
  const making = card.run("a", (engine) => engine.generate(REQUEST))
    .then(() => order.push(`made ${loaded()}`));
  const leaving = card.unload("a").then(() => order.push(`left ${loaded()}`));
  const loading = card.load("b").then(() => order.push(`loaded ${loaded()}`));
  await Promise.all([making, leaving, loading]);
  assert.deepEqual(order, ["made 10", "left 00", "loaded 01"]);
  assert.equal(models[0]!.engine.aborted, 0);
  const controller = new AbortController();
  controller.abort(new DOMException("gone", "AbortError"));
  await assert.rejects(a!.generate(REQUEST, { signal: controller.signal }), { name: "AbortError" });
  assert.equal(loaded(), "01", "nothing is loaded for whoever has gone");
});

Deno.test("Card tells a request that its model has to be loaded, where it has to be", async () => {
  const { all: [a] } = await share({ a: 1 });
  const stages: string[][] = [[], []];
  for (const seen of stages) {
    await a!.generate(REQUEST, { onProgress: ({ stage }) => seen.push(stage) });
  }
  assert.equal(stages[0]![0], "load");
  assert.ok(!stages[1]!.includes("load"));
});
