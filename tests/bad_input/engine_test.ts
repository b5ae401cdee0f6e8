import assert from "node:assert/strict";
import { EngineWorker } from "../../engine/engine_worker.ts";
import type { GenerateRequest } from "../../engine/types.ts";
import { WorkerEngine } from "../../engine/worker_engine.ts";
import { damagedModel, type JsonFields } from "./damaged_model.ts";

const SCRIPT = new URL("../fakes/gpu_worker.ts", import.meta.url);

function request(prompt: string): GenerateRequest {
  const size = { width: 16, height: 16 };
  return { prompt, ...size, seed: 0, numInferenceSteps: 4, guidanceScale: 1 };
}

async function withEngine(use: (engine: WorkerEngine) => Promise<void>): Promise<void> {
  const newWorker = () => new EngineWorker(new Worker(SCRIPT, { type: "module" }));
  const engine = new WorkerEngine("folder", { modelPath: "model" }, newWorker, { abortMs: 100 });
  await engine.start();
  try {
    await use(engine);
  } finally {
    await engine.close();
  }
}

/** Generations that end badly, and why. */
const FATAL: [prompt: string, reason: RegExp][] = [
  ["crash", /^Cannot go on: the GPU worker ended \(.*the thread broke/],
  ["lose the device", /^Cannot go on: the device was lost/],
];

for (const [prompt, reason] of FATAL) {
  Deno.test(`WorkerEngine.generate() fails with the reason after "${prompt}", and the next one works`, () =>
    withEngine(async (engine) => {
      const failed = engine.generate(request(prompt));
      const next = engine.generate(request("ok"));
      await assert.rejects(failed, { name: "DeviceLostError", message: reason });
      assert.equal((await next).peakBytes, 7);
    }));
}

Deno.test("WorkerEngine.generate() ends a worker that does not heed an abort, and the next one works", () =>
  withEngine(async (engine) => {
    const reason = new Error("enough");
    const controller = new AbortController();
    const deaf = engine.generate(request("deaf"), {
      signal: controller.signal,
      onProgress: () => controller.abort(reason),
    });
    await assert.rejects(deaf, (error) => error === reason);
    assert.equal((await engine.generate(request("ok"))).peakBytes, 7);
  }));

Deno.test("WorkerEngine.generate() ends a tokenizer that takes for ever, or doubles the prompt, and goes on", async () => {
  const stages = (json: JsonFields, normalizers: unknown[]) => ({
    ...json,
    normalizer: { type: "Sequence", normalizers: [json["normalizer"], ...normalizers] },
  });
  const slow = { type: "Replace", pattern: { Regex: "a+b" }, content: "" };
  const doubling = { type: "Replace", pattern: { String: "z" }, content: "zz" };
  using model = damagedModel({
    "tokenizer/tokenizer.json": {
      json: (value) => stages(value, [slow, ...Array.from({ length: 40 }, () => doubling)]),
    },
  });
  const options = { modelPath: model.folder };
  const engine = new WorkerEngine(model.folder, options, undefined, { tokenizeMs: 500 });
  await engine.start();
  try {
    const ask = (prompt: string) => engine.generate(request(prompt));
    await assert.rejects(
      // Long enough to be ended, and short enough for its thread to be gone soon: V8 finishes a match that it has begun.
      ask("a".repeat(42_000)),
      /^RangeError: .*the tokenizer took longer than 0.5 s/,
    );
    await assert.rejects(ask("z"), /^RangeError: Cannot encode the text: the tokenizer makes more/);
    assert.equal((await ask("a red circle")).frames.length, 1);
  } finally {
    await engine.close();
  }
});
