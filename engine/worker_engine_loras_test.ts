import { strict as assert } from "node:assert";
import { join } from "node:path";
import { FAKE_LAYERS, loraFile } from "../tests/fakes/loras.ts";
import { withFolder } from "../tests/support/safetensors.ts";
import { EngineWorker } from "./engine_worker.ts";
import type { EngineOptions } from "./options.ts";
import type { GenerateRequest, LoraUse } from "./types.ts";
import { WorkerEngine } from "./worker_engine.ts";

const SCRIPT = new URL("../tests/fakes/gpu_worker.ts", import.meta.url);

interface Bench {
  readonly engine: WorkerEngine;
  readonly notes: string[];
  /** Makes an image of one colour, which follows from its LoRAs. */
  colour(loras?: readonly LoraUse[]): Promise<string>;
  use(name: string, rest?: Omit<LoraUse, "path">): LoraUse;
}

const request = (prompt: string, loras: readonly LoraUse[] = []): GenerateRequest => ({
  ...{ prompt, loras, width: 16, height: 16, seed: 0, numInferenceSteps: 4, guidanceScale: 1 },
});

function withEngine(
  use: (bench: Bench) => Promise<void>,
  options: Partial<EngineOptions> = {},
): Promise<void> {
  const files = {
    "a.safetensors": loraFile({ mark: 1 }),
    "b.safetensors": loraFile({ mark: 2, layers: FAKE_LAYERS.slice(1) }),
    "nan.safetensors": loraFile({ mark: NaN }),
  };
  return withFolder(files, async (folder) => {
    const notes: string[] = [];
    const newWorker = () => new EngineWorker(new Worker(SCRIPT, { type: "module" }));
    const engine = new WorkerEngine("folder", {
      modelPath: "model",
      onNote: (line) => notes.push(line),
      ...options,
    }, newWorker);
    await engine.start();
    const colour = async (loras: readonly LoraUse[] = []) =>
      (await engine.generate(request("colour", loras))).frames[0]!.slice(0, 3).toHex();
    try {
      await use({
        ...{ engine, notes, colour },
        use: (name, rest = {}) => ({ path: join(folder, `${name}.safetensors`), ...rest }),
      });
    } finally {
      await engine.close();
    }
  });
}

Deno.test("WorkerEngine.generate() applies the LoRAs of its request, and of no other", () =>
  withEngine(async ({ colour, use }) => {
    const base = await colour();
    const [a, b] = [use("a"), use("b", { strength: 0.5 })];
    const lists = [[a], [b], [a, b], [b, a], [], [a], [{ ...a, target: "transformer" as const }]];
    const colours = await Promise.all(lists.map(colour));
    assert.equal(new Set(colours).size, 6, "order, strength and target count");
    assert.equal(colours[4], base);
    assert.equal(colours[5], colours[0]);
  }));

Deno.test("WorkerEngine.info names what LoRAs can be meant for", () =>
  withEngine(({ engine }) => {
    assert.deepEqual(engine.info.loraTargets, ["transformer", "transformer_2"]);
    return Promise.resolve();
  }));

Deno.test("WorkerEngine.checkLoras() says what each LoRA changes, while a generation runs", () =>
  withEngine(async ({ engine, use, notes }) => {
    const controller = new AbortController();
    const running = engine.generate(request("wait"), { signal: controller.signal });
    const reports = await engine.checkLoras([
      use("b", { target: "transformer" }),
      use("a", { mode: "merge" }),
    ]);
    assert.deepEqual(
      reports.map(({ index, target, mode, layers }) => [index, target, mode, layers.length]),
      [
        [0, "transformer", "merged", 2],
        [1, "transformer", "merged", 3],
        [1, "transformer_2", "merged", 3],
      ],
    );
    assert.match(notes[0]!, /^Read LoRA b\.safetensors \(diffusers, 0\.0 MB\) for \d layers in/);
    controller.abort();
    await assert.rejects(running, { name: "AbortError" });
  }));

Deno.test("WorkerEngine.prepareLoras() takes its turn after the generation that runs", () =>
  withEngine(async ({ engine, use }) => {
    const controller = new AbortController();
    const order: string[] = [];
    const running = engine.generate(request("wait"), { signal: controller.signal })
      .catch(() => order.push("generated"));
    const preparing = engine.prepareLoras([use("a")]).then(() => order.push("prepared"));
    const next = engine.generate(request("ok")).then(() => order.push("next"));
    setTimeout(() => controller.abort(), 50);
    await Promise.all([running, preparing, next]);
    assert.deepEqual(order, ["generated", "prepared", "next"]);
  }));

Deno.test("WorkerEngine.prepareLoras() refuses with the list, and the engine goes on as before", () =>
  withEngine(async ({ engine, use, colour }) => {
    const before = await colour([use("a")]);
    await engine.prepareLoras([use("a")]);
    await assert.rejects(engine.prepareLoras([use("a"), use("nan")]), (error: Error) => {
      assert.equal(error.name, "LoraError");
      assert.ok((error as Error & { problems: string[] }).problems.length > 0);
      return true;
    });
    await assert.rejects(
      engine.prepareLoras([use("a", { target: "critic" })]),
      /has transformer, /,
    );
    await assert.rejects(engine.prepareLoras([use("b", { strength: 99 })]), {
      name: "OutOfMemoryError",
    });
    assert.equal(await colour([use("a")]), before);
  }));

Deno.test("WorkerEngine merges prepared LoRAs, and keeps a request's beside the weights", () =>
  withEngine(async ({ engine, use, colour }) => {
    const [report] = await engine.prepareLoras([use("a")]);
    assert.equal(report!.mode, "merged");
    const dynamic = await engine.prepareLoras([use("a", { mode: "dynamic" })]);
    assert.equal(dynamic[0]!.mode, "dynamic");
    assert.equal(await colour([use("a")]), await colour([use("a", { mode: "dynamic" })]));
  }));

Deno.test("WorkerEngine sends a worker each LoRA once, and a new worker what it needs", () =>
  withEngine(async ({ engine, use, colour }) => {
    const before = await colour([use("a"), use("b")]);
    await assert.rejects(engine.generate(request("lose the device", [use("a")])));
    assert.equal(await colour([use("a"), use("b")]), before);
  }));

Deno.test("WorkerEngine reads a LoRA again that its bound did not let it keep", () =>
  withEngine(async ({ engine, use, colour, notes }) => {
    const alone = await colour([use("a")]);
    await colour([use("b")]);
    assert.equal(await colour([use("a")]), alone);
    assert.equal(notes.length, 3);
    await engine.prepareLoras([use("a")]);
    await colour([use("b")]);
    await colour([use("a")]);
    assert.equal(notes.length, 4, "what is in use stays");
  }, { loraCacheBytes: 1 }));

Deno.test("WorkerEngine knows LoRAs by the names that it was given", () =>
  withFolder(
    { "x.safetensors": loraFile({ mark: 1 }) },
    (folder) =>
      withEngine(async ({ colour, use }) => {
        assert.equal(await colour([{ path: "outline" }]), await colour([use("a")]));
        await assert.rejects(colour([{ path: "outlin" }]), /this model comes with outline$/);
      }, { namedLoras: { outline: join(folder, "x.safetensors") } }),
  ));

Deno.test("WorkerEngine.generate() says that the engine was closed while LoRAs were read", () =>
  withEngine(async ({ engine, use }) => {
    const work = engine.generate(request("colour", [use("a")]));
    const refused = assert.rejects(work, { message: "Cannot generate: the engine is closed" });
    // The turn has begun then; the disk has not answered.
    for (let i = 0; i < 20; i++) await null;
    await engine.close();
    await refused;
  }));
