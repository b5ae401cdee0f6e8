import assert from "node:assert/strict";
import { DeviceLostError } from "../runtime/mod.ts";
import { EngineWorker } from "./engine_worker.ts";
import { FrameFlow, type FromWorker, type ToWorker } from "./protocol.ts";

const OPEN: ToWorker = { type: "open", model: "model", parts: {}, device: {}, memory: {} };

function generation(prompt: string): ToWorker {
  return {
    type: "generate",
    request: {
      task: "T2I",
      prompt,
      negativePrompt: "",
      width: 16,
      height: 16,
      numFrames: 1,
      seed: 0,
      numInferenceSteps: 4,
      guidanceScale: 1,
    },
    loras: { uses: [], added: new Map(), forgotten: [] },
    size: { width: 16, height: 16 },
    result: "frames",
    previews: 0,
    flow: new FrameFlow().shared,
  };
}

async function withWorker(use: (worker: EngineWorker) => Promise<void>, name = ""): Promise<void> {
  const script = new URL("../tests/fakes/gpu_worker.ts", import.meta.url);
  const worker = new EngineWorker(new Worker(script, { type: "module", name }));
  try {
    await use(worker);
  } finally {
    await worker.close();
  }
}

Deno.test("EngineWorker.ask() passes events on, then gives the answer, question after question", () =>
  withWorker(async (worker) => {
    const events: FromWorker[] = [];
    assert.equal((await worker.ask(OPEN, (event) => events.push(event))).type, "opened");
    assert.deepEqual(events, [{ type: "loading", fraction: 0.5 }]);
    assert.equal((await worker.ask(generation("ok"))).type, "generated");
    assert.equal((await worker.ask(generation("ok"))).type, "generated");
    assert.ok(!worker.isBroken);
  }));

Deno.test("EngineWorker.ask() throws what the worker failed with, and only a lost device breaks it", () =>
  withWorker(async (worker) => {
    await assert.rejects(worker.ask(generation("refuse")), RangeError);
    assert.ok(!worker.isBroken);
    await assert.rejects(worker.ask(generation("lose the device")), DeviceLostError);
    assert.ok(worker.isBroken);
  }));

Deno.test("EngineWorker.ask() throws when the thread ends, and at once from then on", () =>
  withWorker(async (worker) => {
    await assert.rejects(worker.ask(generation("crash")), /GPU worker ended \(.*the thread broke/);
    assert.ok(worker.isBroken);
    await assert.rejects(worker.ask(OPEN), /Cannot ask the GPU worker to open: it has ended/);
  }));

Deno.test("EngineWorker.ask() throws when the thread ends without an error", () =>
  withWorker(async (worker) => {
    await worker.ask(OPEN);
    await assert.rejects(worker.ask(generation("leave")), {
      name: "DeviceLostError",
      message: "Cannot go on: the GPU worker ended",
    });
    assert.ok(worker.isBroken);
  }));

Deno.test("EngineWorker notices a thread that ends between two questions", () =>
  withWorker(async (worker) => {
    await worker.ask(generation("crash afterwards"));
    const limit = performance.now() + 5000;
    while (!worker.isBroken && performance.now() < limit) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await assert.rejects(worker.ask(OPEN), /it has ended/);
  }));

Deno.test("EngineWorker.ask() refuses a second question and a message that cannot be sent, and keeps the first", () =>
  withWorker(async (worker) => {
    const unsendable = { ...OPEN, model: (() => {}) as unknown as string };
    await assert.rejects(worker.ask(unsendable), { name: "DataCloneError" });
    const first = worker.ask(OPEN);
    await assert.rejects(worker.ask(OPEN), /it is at work/);
    assert.equal((await first).type, "opened");
  }));

Deno.test("EngineWorker.ask() throws what its callback throws, and counts as broken then", () =>
  withWorker(async (worker) => {
    const failure = new Error("the callback's own");
    const asked = worker.ask(generation("ok"), () => {
      throw failure;
    });
    await assert.rejects(asked, failure);
    assert.ok(worker.isBroken);
  }));

Deno.test("EngineWorker.terminate() ends the question under way with its reason", () =>
  withWorker(async (worker) => {
    const reason = new DOMException("closed", "AbortError");
    const asked = worker.ask(OPEN);
    worker.terminate(reason);
    await assert.rejects(asked, (error) => error === reason);
  }, "silent"));

/** Threads of workers that Linux shows, but those of other tests, which end by and by. */
function workerThreads(others: readonly string[] = []): string[] {
  if (Deno.build.os !== "linux") return [];
  const threads = [...Deno.readDirSync("/proc/self/task")].map(({ name }) => name);
  return threads.filter((thread) => {
    try {
      const name = Deno.readTextFileSync(`/proc/self/task/${thread}/comm`);
      return name.startsWith("worker-") && !others.includes(thread);
    } catch {
      return false;
    }
  });
}

Deno.test("EngineWorker.close() waits until the thread is gone, whatever it does", async () => {
  const others = workerThreads();
  const cases: [name: string, begin: (worker: EngineWorker) => Promise<unknown> | undefined][] = [
    ["it starts", () => undefined],
    ["it waits", (worker) => worker.ask(OPEN)],
    ["it works", (worker) => void worker.ask(generation("deaf")).catch(() => {})],
    ["it has ended", (worker) => worker.ask(generation("leave")).catch(() => {})],
  ];
  for (const [title, begin] of cases) {
    await withWorker(async (worker) => {
      await begin(worker);
      if (title === "it waits" && Deno.build.os === "linux") {
        assert.equal(workerThreads(others).length, 1, "threads are seen");
      }
      await worker.close();
      assert.ok(worker.isBroken, title);
      await worker.close();
    });
    assert.deepEqual(workerThreads(others), [], title);
  }
});

Deno.test("EngineWorker.close() says when the thread is still at work", async () => {
  const script = "onmessage = () => { for (const end = Date.now() + 300; Date.now() < end;); }";
  const url = `data:text/javascript,${encodeURIComponent(script)}`;
  const worker = new EngineWorker(new Worker(url, { type: "module" }));
  await new Promise((resolve) => setTimeout(resolve, 100));
  await assert.rejects(
    worker.close(undefined, 10),
    /^Error: Cannot free the GPU: its thread is still at work 0\.01 s after it was told to end$/,
  );
  await worker.close();
});
