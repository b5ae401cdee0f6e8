import assert from "node:assert/strict";
import { DeviceLostError } from "../runtime/mod.ts";
import { FAKE_INFO } from "../tests/fakes/model_info.ts";
import { EngineWorker } from "./engine_worker.ts";
import type { EngineOptions } from "./options.ts";
import type { GenerateRequest, Progress } from "./types.ts";
import { WorkerEngine } from "./worker_engine.ts";

const SCRIPT = new URL("../tests/fakes/gpu_worker.ts", import.meta.url);

interface Bench {
  readonly engine: WorkerEngine;
  /** Threads started so far; those after the first have the name `nextName`. */
  starts: number;
  nextName: string;
}

async function withEngine(
  use: (bench: Bench) => Promise<void>,
  options: Partial<EngineOptions> = {},
  waits: ConstructorParameters<typeof WorkerEngine>[3] = {},
): Promise<void> {
  const newWorker = () => {
    const name = bench.starts++ === 0 ? "" : bench.nextName;
    return new EngineWorker(new Worker(SCRIPT, { type: "module", name }));
  };
  const settings = { modelPath: "model", ...options };
  const engine = new WorkerEngine("folder", settings, newWorker, waits);
  const bench: Bench = { engine, starts: 0, nextName: "" };
  await engine.start();
  try {
    await use(bench);
  } finally {
    await engine.close();
  }
}

function request(prompt: string): GenerateRequest {
  const size = { width: 16, height: 16 };
  return { prompt, ...size, seed: 0, numInferenceSteps: 4, guidanceScale: 1 };
}

const text = (frame: Uint8Array | undefined) => new TextDecoder().decode(frame);

Deno.test("WorkerEngine.info says what the worker opened", () => {
  const fractions: number[] = [];
  return withEngine(async ({ engine }) => {
    assert.equal(engine.info.modelPath, "model");
    assert.equal(engine.info.className, "GradientPipeline");
    assert.deepEqual(engine.info.supportedTasks, ["T2I", "T2V", "I2V"]);
    assert.deepEqual([engine.info.maxImages, engine.info.maxFrames], [1, 9]);
    assert.equal(engine.info.maxPixels, 1000);
    assert.deepEqual(fractions, [0.5]);
    await Promise.resolve();
  }, { onLoadProgress: ({ fraction }) => fractions.push(fraction) });
});

Deno.test("WorkerEngine.start() throws what the worker failed with", async () => {
  const engine = new WorkerEngine(
    "damaged",
    { modelPath: "model" },
    () => new EngineWorker(new Worker(SCRIPT, { type: "module" })),
  );
  await assert.rejects(engine.start(), { name: "SyntaxError", message: /damaged/ });
  assert.throws(() => engine.info, /it is not loaded yet/);
  await engine.close();
});

Deno.test("WorkerEngine.generate() gives frames, seconds and progress", () =>
  withEngine(async ({ engine }) => {
    const seen: Progress[] = [];
    const result = await engine.generate(request("ok"), { onProgress: (p) => seen.push(p) });
    assert.deepEqual(result.frames.map(text), ["ok"]);
    assert.deepEqual(result.timings, { denoise: 1.5 });
    assert.deepEqual([result.width, result.fps, result.peakBytes], [16, FAKE_INFO.defaults.fps, 7]);
    assert.deepEqual(seen.map(({ stage, step, totalSteps }) => [stage, step, totalSteps]), [
      ["denoise", 1, 4],
    ]);
  }));

Deno.test("WorkerEngine.generate() hands frames and previews to those who watch, and keeps none", () =>
  withEngine(async ({ engine }) => {
    const seen: [string, number, number?][] = [];
    const { frames } = await engine.generate(request("ok"), {
      onFrame: ({ data, width }) => void seen.push([text(data)!, width]),
      previews: 2,
      onPreview: ({ data, width }, index) => seen.push([text(data)!, width, index]),
    });
    assert.deepEqual(frames, []);
    assert.deepEqual(seen, [["preview 0", 16, 0], ["preview 1", 16, 1], ["ok", 16]]);
    await engine.generate(request("ok"), { previews: 2 });
    assert.equal(seen.length, 3);
  }));

Deno.test("WorkerEngine.generate() hands out sound before frames, and else keeps it", () =>
  withEngine(async ({ engine }) => {
    const seen: unknown[] = [];
    const { audio } = await engine.generate(request("sound"), {
      onAudio: ({ sampleRate, channels }) => seen.push(sampleRate, channels),
      onFrame: ({ data }) => void seen.push(text(data)),
    });
    assert.deepEqual(seen, [8, [new Float32Array([0, 1])], "sound"]);
    assert.equal(audio, undefined);
    const kept = await engine.generate(request("sound"));
    assert.deepEqual(kept.audio, { sampleRate: 8, channels: [new Float32Array([0, 1])] });
  }));

Deno.test("WorkerEngine.generate() has no more large frames made than are taken", () =>
  withEngine(async ({ engine }) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    let frames = 0;
    const onFrame = () => {
      frames++;
      return promise;
    };
    const generating = engine.generate(request("large frames"), { onFrame });
    const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    while (frames < 3) await wait(5);
    await wait(50);
    assert.equal(frames, 3, "three of 20 MB are on their way");
    resolve();
    await generating;
    assert.equal(frames, 7);
  }));

Deno.test("WorkerEngine.generate() ends when it is cancelled while frames wait to be taken", () =>
  withEngine(async ({ engine }) => {
    const onFrame = () => new Promise<void>(() => {});
    const signal = AbortSignal.timeout(100);
    await engine.generate(request("large frames"), { onFrame, signal });
    assert.ok(signal.aborted);
  }));

Deno.test("WorkerEngine.generate() runs one generation after the other, whatever becomes of them", () =>
  withEngine(async (bench) => {
    const { engine } = bench;
    const results = await Promise.allSettled(
      ["a", "refuse", "b"].map((prompt) => engine.generate(request(prompt))),
    );
    assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
    assert.ok((results[1] as PromiseRejectedResult).reason instanceof RangeError);
    assert.equal(bench.starts, 1);
  }));

for (
  const [prompt, expected] of [
    ["crash", Error],
    ["leave", DeviceLostError],
    ["lose the device", DeviceLostError],
  ] as const
) {
  Deno.test(`WorkerEngine.generate() says why it failed and starts another worker next: ${prompt}`, () =>
    withEngine(async (bench) => {
      const { engine } = bench;
      const failed = engine.generate(request(prompt));
      const next = engine.generate(request("next"));
      await assert.rejects(failed, expected);
      assert.deepEqual((await next).frames.map(text), ["next"]);
      assert.equal(bench.starts, 2);
    }));
}

Deno.test("WorkerEngine.generate() starts another worker when the last one ended unasked", () =>
  withEngine(async (bench) => {
    await bench.engine.generate(request("crash afterwards"));
    const limit = performance.now() + 5000;
    while (bench.starts === 1 && performance.now() < limit) {
      await bench.engine.generate(request("ok")).catch(() => {});
    }
    assert.equal(bench.starts, 2);
    await bench.engine.generate(request("ok"));
  }));

Deno.test("WorkerEngine.generate() throws the signal's reason when it fires meanwhile, and keeps the worker", () =>
  withEngine(async (bench) => {
    const { engine } = bench;
    const controller = new AbortController();
    const options = { signal: controller.signal, onProgress: () => controller.abort() };
    await assert.rejects(engine.generate(request("wait"), options), { name: "AbortError" });
    const own = new Error("the caller's own reason");
    const second = new AbortController();
    const withReason = { signal: second.signal, onProgress: () => second.abort(own) };
    await assert.rejects(engine.generate(request("wait"), withReason), own);
    await engine.generate(request("ok"));
    assert.equal(bench.starts, 1);
  }));

Deno.test("WorkerEngine.generate() does not begin when the signal has fired, before it or in the queue", () =>
  withEngine(async ({ engine }) => {
    const seen: Progress[] = [];
    const onProgress = (progress: Progress) => seen.push(progress);
    const options = { signal: AbortSignal.abort(), onProgress };
    await assert.rejects(engine.generate(request("wait"), options), { name: "AbortError" });
    const controller = new AbortController();
    const first = engine.generate(request("ok"));
    const queued = engine.generate(request("wait"), { signal: controller.signal, onProgress });
    controller.abort();
    await first;
    await assert.rejects(queued, { name: "AbortError" });
    assert.equal(seen.length, 0);
  }));

Deno.test("WorkerEngine.generate() hears a signal that fires while a lost worker is replaced", () =>
  withEngine(async (bench) => {
    const { engine } = bench;
    await assert.rejects(engine.generate(request("lose the device")), DeviceLostError);
    const controller = new AbortController();
    const result = engine.generate(request("wait"), { signal: controller.signal });
    while (bench.starts === 1) await new Promise((resolve) => setTimeout(resolve));
    controller.abort();
    await assert.rejects(result, { name: "AbortError" });
    await engine.generate(request("ok"));
  }));

Deno.test("WorkerEngine.generate() throws what onProgress throws, and the engine stays usable", () =>
  withEngine(async ({ engine }) => {
    const failure = new Error("the callback's own");
    const onProgress = () => {
      throw failure;
    };
    await assert.rejects(engine.generate(request("wait"), { onProgress }), failure);
    await engine.generate(request("ok"));
  }));

Deno.test("WorkerEngine.close() aborts what runs and refuses what waits and what comes", () =>
  withEngine(async ({ engine }) => {
    const running = engine.generate(request("wait"), {
      onProgress: () => void engine.close(),
    });
    const waiting = engine.generate(request("ok"));
    await assert.rejects(running, { name: "AbortError", message: /the engine was closed/ });
    await assert.rejects(waiting, /Cannot generate: the engine is closed/);
    await assert.rejects(engine.generate(request("ok")), /Cannot generate: the engine is closed/);
    await engine.close();
  }));

Deno.test("WorkerEngine.close() ends a worker that is still loading", () =>
  withEngine(async (bench) => {
    const { engine } = bench;
    bench.nextName = "silent";
    await assert.rejects(engine.generate(request("crash")));
    const restarting = engine.generate(request("ok"));
    while (bench.starts === 1) await new Promise((resolve) => setTimeout(resolve));
    await Promise.all([
      assert.rejects(restarting, { name: "AbortError" }),
      engine.close(),
    ]);
  }));

Deno.test("WorkerEngine unloads a model that is idle for longer than it is kept alive, and loads it for the next request", async () => {
  const notes: string[] = [];
  const unloaded = Promise.withResolvers<void>();
  const onNote = (line: string) => {
    notes.push(line);
    unloaded.resolve();
  };
  await withEngine(async (bench) => {
    const { engine } = bench;
    const results = await Promise.all([
      engine.generate(request("a")),
      engine.generate(request("b")),
    ]);
    assert.deepEqual(results.map(({ frames }) => text(frames[0])), ["a", "b"]);
    assert.deepEqual([engine.residence, bench.starts], ["loaded", 1]);
    await unloaded.promise;
    assert.equal(engine.residence, "unloaded");
    assert.equal(engine.info.modelPath, "model", "what is known of it stays");
    assert.match(notes[0]!, /^Unloaded the model, which was idle for 0.05 s/);
    const stages: Progress["stage"][] = [];
    const onProgress = ({ stage }: Progress) => void stages.push(stage);
    assert.equal(text((await engine.generate(request("c"), { onProgress })).frames[0]), "c");
    assert.deepEqual(stages, ["load", "denoise"]);
    assert.deepEqual([engine.residence, bench.starts], ["loaded", 2]);
  }, { keepAliveMs: 50, onNote });
});

Deno.test("WorkerEngine does not unload while it works", () =>
  withEngine(async (bench) => {
    const { engine } = bench;
    const control = new AbortController();
    setTimeout(() => control.abort(), 120);
    const result = engine.generate(request("wait"), { signal: control.signal });
    await assert.rejects(result, { name: "AbortError" });
    assert.deepEqual([engine.residence, bench.starts], ["loaded", 1]);
  }, { keepAliveMs: 20 }));

Deno.test("WorkerEngine frees what a request left after a while without one, and only then", () =>
  withEngine(
    async ({ engine }) => {
      const count = async () => text((await engine.generate(request("count releases"))).frames[0]);
      assert.equal(await count(), "0");
      assert.equal(await count(), "0");
      await new Promise((resolve) => setTimeout(resolve, 150));
      assert.equal(await count(), "1");
    },
    {},
    { releaseMs: 50 },
  ));

Deno.test("WorkerEngine ends a worker whose tokenizer does not, and says so", () =>
  withEngine(
    async (bench) => {
      const { engine } = bench;
      await assert.rejects(engine.generate(request("tokenize for ever")), {
        name: "RangeError",
        message: /^Cannot encode the prompt: the tokenizer took longer than 0.05 s; shorten/,
      });
      assert.equal(text((await engine.generate(request("tokenize"))).frames[0]), "tokenize");
      await new Promise((resolve) => setTimeout(resolve, 100));
      assert.deepEqual([engine.residence, bench.starts], ["loaded", 2]);
    },
    {},
    { tokenizeMs: 50 },
  ));
