/** That nothing stays behind: buffers on the device, and open files, however often something is repeated or fails. */
import assert from "node:assert/strict";
import type { AppliedLora, LoraComponent, ModuleChange } from "../models/lora/types.ts";
import { openPipeline } from "../models/mod.ts";
import { openDevice } from "../runtime/mod.ts";
import { loraOf, randomTensor } from "./support/lora_reference.ts";
import { damagedModel } from "./bad_input/damaged_model.ts";
import { type Fixture, FOLDER, REQUEST, withPipeline } from "./support/pipeline_fixture.ts";

const SWITCHES = 50;
const SESSIONS = 20;
const FAILURES = 20;

/** Counts the buffers of a device that are not destroyed. */
function countBuffers(gpuDevice: GPUDevice): () => number {
  let count = 0;
  const create = gpuDevice.createBuffer.bind(gpuDevice);
  gpuDevice.createBuffer = (descriptor) => {
    const buffer = create(descriptor);
    const destroy = buffer.destroy.bind(buffer);
    let isThere = true;
    count++;
    buffer.destroy = () => {
      if (isThere) count--;
      isThere = false;
      destroy();
    };
    return buffer;
  };
  return () => count;
}

/** Files that this process has open. */
function openFiles(): number {
  return [...Deno.readDirSync("/proc/self/fd")].length;
}

function lora(
  { pipeline }: Fixture,
  key: string,
  mode: AppliedLora["mode"],
  target: LoraComponent = "transformer",
): AppliedLora {
  const { modules } = pipeline.adaptable.find((component) => component.target === target)!;
  const changes = modules.filter(({ name, shape }) => shape.length === 2 && /to_q|\.q$/.test(name))
    .map(({ name, shape: [rows, columns] }, i): ModuleChange => ({
      target,
      module: name,
      weight: [{
        kind: "low-rank",
        scale: 1,
        down: randomTensor([4, columns!], i),
        up: randomTensor([rows!, 4], i + 100),
      }],
    }));
  assert.ok(changes.length > 0);
  return { key, lora: loraOf(...changes), strength: 1, targets: [target], mode };
}

Deno.test(`a pipeline holds as many buffers after ${SWITCHES} switches of LoRAs as after one of each kind`, () =>
  withPipeline(async (fixture) => {
    const { pipeline, device } = fixture;
    const live = countBuffers(device.gpuDevice);
    const sets = [
      [],
      [lora(fixture, "a", "dynamic")],
      [lora(fixture, "a", "merge")],
      [lora(fixture, "b", "dynamic"), lora(fixture, "a", "merge")],
      [lora(fixture, "c", "merge", "text_encoder")],
    ];
    const request = { ...REQUEST, numFrames: 1, numInferenceSteps: 1 };
    const held: (readonly [buffers: number, bytes: number])[] = [];
    for (let i = 0; i < SWITCHES; i++) {
      await pipeline.generate({ ...request, loras: sets[i % sets.length]! });
      held.push([live(), device.allocatedBytes]);
    }
    assert.deepEqual(held.at(-1), held[sets.length - 1]);
    pipeline[Symbol.dispose]();
    pipeline[Symbol.dispose]();
    assert.equal(device.allocatedBytes, 0);
  }));

Deno.test(`a pipeline holds as many buffers after ${SESSIONS} sessions as after the first of their kinds`, () =>
  withPipeline(async ({ pipeline, device }) => {
    const live = countBuffers(device.gpuDevice);
    const held: number[] = [];
    for (let i = 0; i < SESSIONS; i++) {
      const width = i % 2 === 0 ? 32 : 64;
      const isCancelled = () => i % 4 === 3;
      const work = pipeline.generate(
        { ...REQUEST, width, numFrames: 1, numInferenceSteps: 1 },
        { isCancelled },
      );
      if (isCancelled()) await assert.rejects(work, { name: "AbortError" });
      else await work;
      if (i % 4 === 0) held.push(live());
    }
    assert.deepEqual(held, held.map(() => held[0]));
  }));

Deno.test({
  name: "models that cannot be opened, loaded or used leave no file open, and no memory taken",
  // Only Linux tells a process which files it has open.
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const device = await openDevice();
    const small = await openDevice({ maxBytes: 1000 });
    using damaged = damagedModel({ "vae/config.json": { text: "{" } });
    try {
      const before = openFiles();
      for (let i = 0; i < FAILURES; i++) {
        await assert.rejects(openPipeline(damaged.folder));
        await assert.rejects(openPipeline(FOLDER, { vae: `${FOLDER}/golden.safetensors` }));
        using pipeline = await openPipeline(FOLDER);
        await assert.rejects(pipeline.load(small), { name: "OutOfMemoryError" });
        await assert.rejects(pipeline.generate({ ...REQUEST, width: 1 }));
      }
      assert.equal(openFiles(), before);
      assert.deepEqual([device.allocatedBytes, small.allocatedBytes], [0, 0]);
    } finally {
      device.destroy();
      small.destroy();
    }
  },
});
