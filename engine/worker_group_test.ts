import assert from "node:assert/strict";
import { DeviceLostError } from "../runtime/mod.ts";
import { FOLDER, REQUEST } from "../tests/support/pipeline_fixture.ts";
import { EngineWorker } from "./engine_worker.ts";
import { FrameFlow, type FromWorker, type ToWorker } from "./protocol.ts";
import { WorkerGroup } from "./worker_group.ts";

const OPEN: Extract<ToWorker, { type: "open" }> = {
  type: "open",
  model: "model",
  parts: {},
  device: {},
  memory: {},
};

function generation(prompt: string, previews = 0): Extract<ToWorker, { type: "generate" }> {
  return {
    type: "generate",
    request: { ...REQUEST, width: 16, height: 16, prompt },
    loras: { uses: [], added: new Map(), forgotten: [] },
    size: { width: 16, height: 16 },
    result: "frames",
    previews,
    flow: new FrameFlow().shared,
  };
}

function fakeThread(): Worker {
  const script = new URL("../tests/fakes/gpu_worker.ts", import.meta.url);
  return new Worker(script, { type: "module" });
}

/** The second worker, whose prompts may be others. */
class Second extends EngineWorker {
  readonly asked: ToWorker[] = [];
  prompt: string | undefined;

  override ask(message: ToWorker): Promise<FromWorker> {
    this.asked.push(message);
    if (message.type !== "generate" || this.prompt === undefined) return super.ask(message);
    return super.ask({ ...message, request: { ...message.request, prompt: this.prompt } });
  }
}

async function withGroup(use: (group: WorkerGroup, second: Second) => Promise<void>) {
  const second = new Second(fakeThread());
  const devices = [{ maxBytes: 1 }, { maxBytes: 2 }];
  const group = new WorkerGroup({ guidance: true }, devices, fakeThread(), () => second);
  try {
    await group.ask(OPEN);
    await use(group, second);
  } finally {
    await group.close();
  }
}

Deno.test("WorkerGroup gives all workers their rank and device, and answers as one", () =>
  withGroup(async (group, second) => {
    const [opened] = second.asked as [Extract<ToWorker, { type: "open" }>];
    assert.equal(opened.ranks?.guidance?.rank, 1);
    assert.equal(opened.device.maxBytes, 2);
    const events: FromWorker[] = [];
    const answer = await group.ask(generation("ok", 2), (event) => events.push(event));
    assert.equal(answer.type, "generated");
    // Of the first worker alone.
    assert.equal(events.filter(({ type }) => type === "frame").length, 1);
    assert.equal(events.filter(({ type }) => type === "preview").length, 2);
    const last = second.asked.at(-1) as Extract<ToWorker, { type: "generate" }>;
    assert.equal(last.previews, 0);
  }));

Deno.test("WorkerGroup fails with what one of its workers fails with, and is broken when one is", () =>
  withGroup(async (group, second) => {
    second.prompt = "refuse";
    await assert.rejects(group.ask(generation("ok")), RangeError);
    assert.ok(!group.isBroken);
    second.prompt = undefined;
    assert.equal((await group.ask(generation("ok"))).type, "generated");
    second.prompt = "leave";
    await assert.rejects(group.ask(generation("ok")), DeviceLostError);
    assert.ok(group.isBroken);
  }));

/** Two real workers. */
async function withGpus(
  use: (group: WorkerGroup, second: Second) => Promise<void>,
): Promise<void> {
  const second = new Second();
  const group = new WorkerGroup({ guidance: true }, [], undefined, () => second);
  try {
    await group.ask({ ...OPEN, model: FOLDER, device: { forceFallbackAdapter: true } });
    await use(group, second);
  } finally {
    await group.close();
  }
}

async function framesOf(worker: EngineWorker, prompt: string): Promise<Uint8Array[]> {
  const frames: Uint8Array[] = [];
  await worker.ask(generation(prompt), (event) => {
    if (event.type === "frame") frames.push(event.data);
  });
  return frames;
}

Deno.test({
  name:
    "WorkerGroup makes the frames of one worker, can be cancelled, and ends when a worker does (slow)",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () =>
    withGpus(async (group, second) => {
      const alone = new EngineWorker();
      try {
        await alone.ask({ ...OPEN, model: FOLDER, device: { forceFallbackAdapter: true } });
        const expected = await framesOf(alone, "a red circle");
        assert.deepEqual(await framesOf(group, "a red circle"), expected);

        const message = generation("a red circle");
        const request = { ...message.request, numInferenceSteps: 200 };
        await assert.rejects(
          group.ask({ ...message, request }, ({ type }) => {
            if (type === "progress") new FrameFlow(message.flow).cancel();
          }),
          { name: "AbortError" },
        );
        assert.deepEqual(await framesOf(group, "a red circle"), expected);

        let steps = 0;
        await assert.rejects(
          group.ask({ ...generation("a red circle"), request }, ({ type }) => {
            if (type === "progress" && ++steps === 5) second.terminate(new DeviceLostError("gone"));
          }),
          DeviceLostError,
        );
        assert.ok(group.isBroken);
      } finally {
        await alone.close();
      }
    }),
});
