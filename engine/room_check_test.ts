import assert from "node:assert/strict";
import type { GenerateRequest, RoomRequest } from "./types.ts";
import { FAKE_INFO } from "../tests/fakes/model_info.ts";
import { EngineWorker } from "./engine_worker.ts";
import { leastOf } from "./room_check.ts";
import { WorkerEngine } from "./worker_engine.ts";

const SCRIPT = new URL("../tests/fakes/gpu_worker.ts", import.meta.url);

/** The fake thread refuses a width above 1000, and breaks at more questions than the height. */
const room = (width: number, height = 16): RoomRequest => ({
  ...{ taskType: "T2I", width, height },
  ...{ numInferenceSteps: 4, guidanceScale: 1 },
});

const WAIT: GenerateRequest = {
  ...{ prompt: "wait", width: 16, height: 16 },
  ...{ seed: 0, numInferenceSteps: 4, guidanceScale: 1 },
};

async function withEngine(
  use: (engine: WorkerEngine, starts: () => number) => Promise<void>,
): Promise<void> {
  let starts = 0;
  const newWorker = () => {
    starts++;
    return new EngineWorker(new Worker(SCRIPT, { type: "module" }));
  };
  const engine = new WorkerEngine("folder", { modelPath: "model" }, newWorker);
  await engine.start();
  try {
    await use(engine, () => starts);
  } finally {
    await engine.close();
  }
}

Deno.test("WorkerEngine.checkRoom() refuses what its idle worker refuses", () =>
  withEngine(async (engine, starts) => {
    await engine.checkRoom(room(1000));
    await assert.rejects(engine.checkRoom(room(1008)), {
      name: "RangeError",
      message: "Cannot make this: it is too wide",
    });
    assert.equal(starts(), 1);
  }));

Deno.test("WorkerEngine.checkRoom() asks once for each size", () =>
  withEngine(async (engine) => {
    for (let i = 0; i < 5; i++) await engine.checkRoom(room(16, 2));
    for (let i = 0; i < 5; i++) await assert.rejects(engine.checkRoom(room(1008, 2)), /too wide/);
    assert.equal(engine.residence, "loaded");
  }));

Deno.test("WorkerEngine.checkRoom() answers while the GPU works, in a thread beside it", () =>
  withEngine(async (engine, starts) => {
    const control = new AbortController();
    const running = engine.generate(WAIT, { signal: control.signal });
    await Promise.all([
      engine.checkRoom(room(16)),
      engine.checkRoom(room(32)),
      assert.rejects(engine.checkRoom(room(1008)), RangeError),
    ]);
    assert.equal(starts(), 2);
    control.abort();
    await assert.rejects(running, { name: "AbortError" });
  }));

Deno.test("WorkerEngine.checkRoom() refuses nothing where the thread breaks", () =>
  withEngine(async (engine) => {
    const control = new AbortController();
    const running = engine.generate(WAIT, { signal: control.signal });
    await engine.checkRoom(room(16, 0));
    await assert.rejects(engine.checkRoom(room(1008)), RangeError);
    control.abort();
    await assert.rejects(running, { name: "AbortError" });
  }));

const { taskDefaults, sampling } = FAKE_INFO;

Deno.test("leastOf() has no prompts, and images of the least size that they can have", () => {
  const request = { ...room(16), prompt: "a", taskType: "TI2I" as const, images: 2 };
  const rules = { sizeMultiple: 16, taskDefaults, sampling };
  const sizes = leastOf(request, rules)[0]!.images!;
  assert.deepEqual(sizes.map(({ width, height }) => [width, height]), [[16, 16], [16, 16]]);
  const imageLimits = { multiple: 32, maxPixels: 1e6, minSide: 64, maxAspect: 8 };
  const { images, ...rest } = leastOf(request, { ...rules, imageLimits })[0]!;
  assert.deepEqual(images!.map(({ width, height }) => [width, height]), [[32, 32], [32, 32]]);
  assert.deepEqual([rest.promptTokens, "prompt" in rest], [1, false]);
});
