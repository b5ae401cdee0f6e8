import assert from "node:assert/strict";
import { EngineWorker } from "../../engine/engine_worker.ts";
import type { GenerateRequest } from "../../engine/types.ts";
import { WorkerEngine } from "../../engine/worker_engine.ts";

const SCRIPT = new URL("../fakes/gpu_worker.ts", import.meta.url);

function request(prompt: string): GenerateRequest {
  const size = { width: 16, height: 16 };
  return { prompt, ...size, seed: 0, numInferenceSteps: 4, guidanceScale: 1 };
}

async function withEngine(use: (engine: WorkerEngine) => Promise<void>): Promise<void> {
  const newWorker = () => new EngineWorker(new Worker(SCRIPT, { type: "module" }));
  const engine = new WorkerEngine("folder", { modelPath: "model" }, newWorker, 100);
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
