import { strict as assert } from "node:assert";
import { until } from "../../tests/fakes/service.ts";
import { EngineWorker } from "../engine_worker.ts";
import type { GenerateRequest, Progress } from "../types.ts";
import { WorkerEngine } from "../worker_engine.ts";
import type { ScheduledModel } from "./scheduled_model.ts";
import { Scheduler } from "./scheduler.ts";

const SCRIPT = new URL("../../tests/fakes/gpu_worker.ts", import.meta.url);

/** Threads without a GPU, one for each name; those that take their place have none. */
async function withModel(
  names: readonly string[],
  use: (model: ScheduledModel, cards: Scheduler, notes: string[]) => Promise<void>,
): Promise<void> {
  const notes: string[] = [];
  const plans = names.map((_, gpu) => ({ gpu, name: "fake", memoryBytes: 0, address: {} }));
  const cards = new Scheduler(plans, {
    onNote: (line) => notes.push(line),
    sleep: () => Promise.resolve(),
  });
  const open = async ({ id }: { id: number }) => {
    let starts = 0;
    const newWorker = () => {
      const name = starts++ === 0 ? names[id]! : "";
      return new EngineWorker(new Worker(SCRIPT, { type: "module", name }));
    };
    const model = names[id] === "damaged" ? "damaged" : "folder";
    const engine = new WorkerEngine(model, { modelPath: "model" }, newWorker);
    try {
      await engine.start();
      return engine;
    } catch (error) {
      await engine.close();
      throw error;
    }
  };
  const model = await cards.open({ name: "m", on: cards.all, open });
  try {
    await model.settled;
    await use(model, cards, notes);
  } finally {
    await model.close();
  }
}

function request(prompt: string): GenerateRequest {
  const size = { width: 16, height: 16 };
  return { prompt, ...size, seed: 0, numInferenceSteps: 4, guidanceScale: 1 };
}

const text = (frame: Uint8Array | undefined) => new TextDecoder().decode(frame);

Deno.test("ScheduledModel makes again what a thread broke at, and starts another thread", () =>
  withModel(["frail", ""], async (model, cards, notes) => {
    const seen: Progress[] = [];
    const { frames } = await model.generate(request("ok"), { onProgress: (p) => seen.push(p) });
    assert.deepEqual(frames.map(text), ["ok"]);
    assert.equal(seen.length, 1);
    await until(() => cards.all[0]!.state === "idle");
    assert.match(
      notes.join("\n"),
      /GPU 0 \(fake\) was lost.*\n.*begun again.*\nGPU 0 \(fake\) is back/,
    );
    const made = await Promise.all(["a", "b"].map((prompt) => model.generate(request(prompt))));
    assert.deepEqual(made.map(({ frames }) => text(frames[0])), ["a", "b"]);
    assert.deepEqual(cards.all.map(({ outputsDone }) => outputsDone), [1, 2]);
  }));

Deno.test("ScheduledModel goes on without a card on which the model cannot be opened", () =>
  withModel(["", "damaged"], async (model, cards, notes) => {
    assert.deepEqual(cards.all.map(({ state }) => state), ["idle", "lost"]);
    assert.equal(cards.count, 1);
    assert.match(notes.join("\n"), /Cannot use GPU 1 \(fake\) for m: .*damaged/);
    await model.generate(request("ok"));
    await model.unload();
    assert.equal(model.residence, "unloaded");
    await model.load();
    assert.equal(model.residence, "loaded");
  }));

Deno.test("Scheduler.open() throws what the first card failed with when none can be used", async () => {
  await assert.rejects(withModel(["damaged", "damaged"], () => Promise.resolve()), {
    name: "SyntaxError",
  });
});
