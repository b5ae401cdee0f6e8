/** The engine as it is used, with the bundled model. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { OutOfMemoryError } from "../runtime/mod.ts";
import { ModelFilesError } from "./model_files_error.ts";
import {
  type Engine,
  type GenerateRequest,
  openEngine,
  type Progress,
  type RoomRequest,
} from "./mod.ts";

const MODEL = fileURLToPath(new URL("../models/bundled", import.meta.url));

const REQUEST: GenerateRequest = {
  prompt: "a red circle",
  width: 64,
  height: 48,
  seed: 7,
  numInferenceSteps: 3,
  guidanceScale: 3.5,
};

async function withEngine(
  use: (engine: Engine) => Promise<void>,
  maxVramBytes?: number,
): Promise<void> {
  const fractions: number[] = [];
  const engine = await openEngine({
    modelPath: MODEL,
    ...(maxVramBytes === undefined ? {} : { maxVramBytes }),
    onLoadProgress: ({ fraction }) => fractions.push(fraction),
  });
  assert.equal(fractions.at(-1), 1);
  assert.deepEqual(fractions, fractions.toSorted((a, b) => a - b));
  try {
    await use(engine);
  } finally {
    await engine.close();
  }
}

/** Most kernels that the bundled model's image may take: each costs the first start on a machine about a tenth of a second. */
const MOST_KERNELS = 32;

Deno.test("openEngine() has compiled what the usual request needs, in few kernels, when it is ready", async () => {
  const counts: [done: number, total: number][] = [];
  const engine = await openEngine({
    ...{ modelPath: MODEL, prepared: {} },
    onLoadProgress: ({ stage, done = 0, total = 0 }) => {
      if (stage === "kernels") counts.push([done, total]);
    },
  });
  try {
    const [done, total] = counts.at(-1)!;
    assert.equal(done, total);
    assert.ok(total > 0 && total <= MOST_KERNELS, `${total} kernels`);
    const stages = new Set<string>();
    await engine.generate(
      { ...REQUEST, ...engine.info.defaults, numFrames: 1 },
      { onProgress: ({ stage }) => stages.add(stage) },
    );
    assert.ok(stages.has("denoise"));
    assert.ok(!stages.has("compile"), "nothing is compiled that was not");
  } finally {
    await engine.close();
  }
});

async function makesTheSameAgain(engine: Engine): Promise<void> {
  const seen: Progress[] = [];
  const first = await engine.generate(REQUEST, { onProgress: (p) => seen.push(p) });
  assert.equal(first.frames.length, 1);
  assert.equal(first.frames[0]!.length, 64 * 48 * 3);
  assert.ok(new Set(first.frames[0]).size > 10, "the image is not flat");
  assert.ok(first.peakBytes > 1e6);
  assert.deepEqual(Object.keys(first.timings), ["prepare", "encode", "denoise", "decode"]);
  const steps = seen.filter(({ stage }) => stage === "denoise").map(({ step }) => step);
  assert.deepEqual(steps, [0, 1, 2, 3]);
  const { stage, fraction, totalSteps } = seen.at(-1)!;
  assert.deepEqual([stage, fraction, totalSteps], ["decode", 1, 3]);

  await engine.generate({ ...REQUEST, seed: 8, width: 128 });
  const again = await engine.generate(REQUEST);
  assert.deepEqual(again.frames, first.frames);
  assert.equal(again.peakBytes, first.peakBytes);
}

async function stopsAndServesTheNext(engine: Engine): Promise<void> {
  for (const at of ["encode", "denoise", "decode"]) {
    const controller = new AbortController();
    const request = { ...REQUEST, numFrames: 17, numInferenceSteps: 100 };
    let last: Progress | undefined;
    const onProgress = (progress: Progress) => {
      last = progress;
      if (progress.stage === at) controller.abort();
    };
    const steps = at === "decode" ? { numInferenceSteps: 1 } : {};
    const result = engine.generate({ ...request, ...steps }, {
      signal: controller.signal,
      onProgress,
    });
    await assert.rejects(result, { name: "AbortError" }, at);
    assert.ok(last!.fraction < 1, at);
  }
  assert.equal((await engine.generate(REQUEST)).frames.length, 1);
}

// An engine takes seconds to load and to compile its kernels: tests of one kind share it.
Deno.test("openEngine() gives an engine that repeats itself, reports progress, and heeds signals", (t) =>
  withEngine(async (engine) => {
    await t.step(
      "the same image for a seed again, with progress to the end",
      () => makesTheSameAgain(engine),
    );
    await t.step(
      "a generation stops when its signal fires, and the next is served",
      () => stopsAndServesTheNext(engine),
    );
  }));

async function givesErrorsOfTheirClasses(engine: Engine): Promise<void> {
  await assert.rejects(engine.generate({ ...REQUEST, width: 65 }), RangeError);
  const huge = { ...REQUEST, width: 128, height: 128, numFrames: 33 };
  await assert.rejects(engine.generate(huge), (error) => {
    assert.ok(error instanceof OutOfMemoryError);
    assert.ok(error.requestedBytes > error.availableBytes && error.availableBytes > 0);
    return true;
  });
  await engine.generate(REQUEST);
}

async function checksRoom(engine: Engine): Promise<void> {
  const room = (width: number, numFrames = 1): RoomRequest => ({
    ...{ width, height: width, numFrames, taskType: numFrames > 1 ? "T2V" : "T2I" },
    ...{ numInferenceSteps: 3, guidanceScale: 3.5 },
  });
  await engine.checkRoom(room(64));
  await assert.rejects(engine.checkRoom(room(128, 33)), {
    name: "OutOfMemoryError",
    message: /^Cannot make 128x128 with 33 frames: it needs \d+ MB on the device, 30 MB may be/,
  });
  const control = new AbortController();
  const request = { ...REQUEST, numInferenceSteps: 1000 };
  const running = engine.generate(request, { signal: control.signal });
  await engine.checkRoom(room(80));
  await assert.rejects(engine.checkRoom(room(128, 65)), OutOfMemoryError);
  control.abort();
  await assert.rejects(running, { name: "AbortError" });
}

Deno.test("Engine.generate() tells of prompts that are read in part, or not at all", () =>
  withEngine(async (engine) => {
    const quick = { ...REQUEST, numInferenceSteps: 1, maxSequenceLength: 8 };
    const prompt = "a red circle, a red circle, and a blue ground";
    const cutsOf = async (more: Partial<GenerateRequest>) =>
      (await engine.generate({ ...quick, ...more })).cutPrompts!;
    const [cut, ...others] = await cutsOf({ prompt });
    assert.deepEqual([cut!.prompt, cut!.read, others], ["prompt", 8, []]);
    assert.ok(cut!.tokens > 8 && prompt.endsWith(cut!.unread), cut!.unread);
    assert.deepEqual(await cutsOf({ prompt: "a" }), []);
    const [unguided] = await cutsOf({ prompt: "a", guidanceScale: 1, negativePrompt: "dark" });
    assert.deepEqual(unguided, { prompt: "negative_prompt", tokens: 1, read: 0, unread: "dark" });
  }));

Deno.test("an engine says that the files of its model are gone, and loads it when they are back", async () => {
  const folder = await Deno.makeTempDir();
  const [here, away] = [`${folder}/model`, `${folder}/away`];
  cpSync(MODEL, here, { recursive: true });
  const engine = await openEngine({ modelPath: here, isLazy: true });
  try {
    assert.equal(await engine.isThere!(), true);
    await Deno.rename(here, away);
    assert.equal(await engine.isThere!(), false);
    await assert.rejects(engine.generate(REQUEST), (error) => {
      assert.ok(error instanceof ModelFilesError, String(error));
      assert.match(
        error.message,
        /^Cannot open ".*model": it does not exist; put it back, or name/,
      );
      return true;
    });
    await Deno.rename(away, here);
    await Deno.rename(`${here}/vae`, `${folder}/vae`);
    await assert.rejects(engine.load!(), { name: "ModelFilesError", message: /^Cannot .*vae/ });
    await Deno.rename(`${folder}/vae`, `${here}/vae`);
    await engine.load!();
    assert.deepEqual([engine.residence, await engine.isThere!()], ["loaded", true]);
  } finally {
    await engine.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("openEngine() gives errors of their classes, and refuses what has no room", async (t) => {
  await assert.rejects(openEngine({ modelPath: `${MODEL}/absent` }), Deno.errors.NotFound);
  await assert.rejects(openEngine({ modelPath: MODEL, maxVramBytes: 1e5 }), OutOfMemoryError);
  await withEngine(async (engine) => {
    await t.step(
      "generate() throws by class, and serves the next",
      () => givesErrorsOfTheirClasses(engine),
    );
    await t.step(
      "checkRoom() refuses what generate() would, also while it works",
      () => checksRoom(engine),
    );
  }, 30e6);
});

Deno.test("openEngine() opens several engines, each with a worker of its own", () =>
  withEngine((first) =>
    withEngine(async (second) => {
      const [a, b] = await Promise.all([first, second].map((engine) => engine.generate(REQUEST)));
      assert.deepEqual(a!.frames, b!.frames);
      const running = first.generate({ ...REQUEST, numInferenceSteps: 1000 }, {
        onProgress: ({ step }) => void (step === 1 && first.close()),
      });
      await assert.rejects(running, { name: "AbortError" });
      assert.deepEqual((await second.generate(REQUEST)).frames, b!.frames);
    })
  ));
