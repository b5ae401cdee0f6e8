/** How the pipeline treats the device: memory, reuse, cancellation. What it computes is tested in `pipeline_test.ts`. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { openModelFiles } from "../../models/checkpoints/open_model.ts";
import { BASELINE_TARGET, GpuValidationError, OutOfMemoryError } from "../../runtime/mod.ts";
import { type Fixture, FOLDER, REQUEST, withPipeline } from "../support/pipeline_fixture.ts";
import { loraOf, randomTensor } from "../support/lora_reference.ts";
import type {
  PipelineControl,
  PipelineProgress,
  PipelineRequest,
} from "../../models/pipeline/types.ts";
import { openFamily } from "../../models/pipeline/diffusion_pipeline.ts";
import { WAN } from "../../models/families/wan/pipeline.ts";
import type { DeviceOptions } from "../../runtime/mod.ts";
import { matrixTarget } from "../support/matrix_target.ts";
import { openTestDevice } from "../support/model_run.ts";
import { checkSecondRequest } from "../support/second_request.ts";

const GIVEN = { width: 32, height: 32, data: new Uint8Array(32 * 32 * 3) };
const CLIP: Partial<PipelineRequest> = {
  task: "V2V",
  video: [new Uint8Array(32 * 32 * 3).fill(99)],
  strength: 0.7,
};

Deno.test("WanPipeline.generate() creates nothing on the device for a second request of a kind", () =>
  withPipeline((fixture) =>
    checkSecondRequest(fixture, REQUEST, { prompt: "a blue square", seed: 2, guidanceScale: 2 })
  ));

Deno.test("WanPipeline.generate() makes a video anew in one step, whatever the strength", () =>
  withPipeline(async ({ pipeline }) => {
    const { frames } = await pipeline.generate({ ...REQUEST, ...CLIP, numInferenceSteps: 1 });
    assert.equal(frames.length, 5);
  }));

Deno.test("WanPipeline.release() frees a session that takes more than it may, not a smaller one", () =>
  withPipeline(async ({ device, pipeline, weightBytes }) => {
    const { latents } = await pipeline.generate(REQUEST);
    const { allocatedBytes } = device;
    pipeline.release(allocatedBytes - weightBytes);
    assert.equal(device.allocatedBytes, allocatedBytes);
    pipeline.release(allocatedBytes - weightBytes - 1);
    assert.equal(device.allocatedBytes, weightBytes);
    assert.deepEqual((await pipeline.generate(REQUEST)).latents, latents);
  }));

Deno.test("WanPipeline.generate() gives the same where nothing can be shown in place", async () => {
  const latents: Float32Array[] = [];
  for (const offsetAlignment of [32, 2 ** 30]) {
    await withPipeline(async ({ pipeline }) => {
      latents.push((await pipeline.generate(REQUEST)).latents);
    }, { offsetAlignment });
  }
  assert.deepEqual(latents[0], latents[1]);
});

Deno.test("WanPipeline.generate() encodes its prompts again only when they change", () =>
  withPipeline(async ({ device, pipeline }) => {
    const submitsFor = async (request: PipelineRequest) => {
      const { submits } = device.counters;
      const { latents } = await pipeline.generate(request);
      return { submits: device.counters.submits - submits, latents };
    };
    const first = await submitsFor(REQUEST);
    const same = await submitsFor(REQUEST);
    assert.equal(same.submits, first.submits - 3, "encoder, read-back, keys and values");
    assert.deepEqual(same.latents, first.latents);
    const other = await submitsFor({ ...REQUEST, negativePrompt: "dark" });
    assert.equal(other.submits, first.submits);
    assert.notDeepEqual(other.latents, first.latents);
    const again = await submitsFor(REQUEST);
    assert.equal(again.submits, first.submits - 2, "what the text encoder gave is kept");
    assert.deepEqual(again.latents, first.latents);
  }));

Deno.test("WanPipeline.generate() makes programs of their own for the qualities exact and high", () =>
  withPipeline(async ({ device, pipeline }) => {
    const created = async (quality?: PipelineRequest["quality"]) => {
      const before = device.counters.bindGroups;
      await pipeline.generate({ ...REQUEST, ...(quality && { quality }) });
      return device.counters.bindGroups > before;
    };
    assert.equal(await created(), true);
    assert.equal(await created("lossless"), false);
    for (const quality of ["exact", "high"] as const) {
      assert.deepEqual([await created(quality), await created(quality)], [true, false], quality);
    }
  }));

/** Where the quality high is int8, on a GPU too. */
const INT8: DeviceOptions = { schedule: "cpu" };

Deno.test("WanPipeline.generate() computes without int8 once that has overflowed, and says so once", () =>
  withPipeline(async ({ device, pipeline }) => {
    const { latents } = await pipeline.generate(REQUEST);
    const high: PipelineRequest = { ...REQUEST, quality: "high" };
    const notes: string[] = [];
    const control: PipelineControl = { onNote: (line) => notes.push(line) };
    // The prompt is known: the first read is that of the sample after the first step.
    const read = device.read.bind(device);
    device.read = async (windows, next) => {
      const bytes = await read(windows, next);
      device.read = read;
      return bytes.fill(255);
    };
    assert.deepEqual((await pipeline.generate(high, control)).latents, latents);
    assert.deepEqual(notes.map((line) => /values overflow .* int8.* without/.test(line)), [true]);
    const { bindGroups } = device.counters;
    assert.deepEqual((await pipeline.generate(high, control)).latents, latents);
    assert.deepEqual([device.counters.bindGroups, notes.length], [bindGroups, 1]);
  }, { opening: INT8 }));

Deno.test("WanPipeline.generate() computes one request without int8 where its LoRAs have made that overflow", () =>
  withPipeline(async ({ device, pipeline }) => {
    const { target, modules } = pipeline.adaptable[0]!;
    const { name, shape: [rows, columns] } = modules.find(({ shape }) => shape.length === 2)!;
    const weight = [{
      kind: "low-rank" as const,
      scale: 1,
      down: randomTensor([1, columns!], 1),
      up: randomTensor([rows!, 1], 2),
    }];
    const lora = loraOf({ target, module: name, weight });
    const loras = [
      { key: "a", lora, strength: 1, targets: [target], mode: "dynamic" as const },
    ];
    const { latents } = await pipeline.generate({ ...REQUEST, loras });
    const notes: string[] = [];
    const control: PipelineControl = { onNote: (line) => notes.push(line) };
    const high: PipelineRequest = { ...REQUEST, loras, quality: "high" };
    for (const count of [1, 2]) {
      const read = device.read.bind(device);
      device.read = async (windows, next) => {
        const bytes = await read(windows, next);
        device.read = read;
        return bytes.fill(255);
      };
      assert.deepEqual((await pipeline.generate(high, control)).latents, latents);
      assert.equal(notes.length, count);
    }
    for (const line of notes) assert.match(line, /and these LoRAs: this request .* without/);
  }, { opening: INT8 }));

Deno.test("WanPipeline.generate() tells after the first step of NaN or Inf where f32 gave them", () =>
  withPipeline(async ({ device, pipeline }) => {
    await pipeline.generate(REQUEST);
    const read = device.read.bind(device);
    device.read = async (windows, next) => {
      const bytes = await read(windows, next);
      device.read = read;
      return bytes.fill(255);
    };
    let reached = 0;
    const control: PipelineControl = { onProgress: ({ step }) => reached = step };
    await assert.rejects(
      pipeline.generate({ ...REQUEST, numInferenceSteps: 9 }, control),
      /the transformer gave NaN or Inf, although all weights are/,
    );
    assert.ok(reached < 3, `${reached} steps`);
  }));

/** The same model, for plans; nothing of it is on a device. */
async function openForPlans(folder = FOLDER) {
  return await openFamily(WAN, await openModelFiles(folder));
}

Deno.test("DiffusionPipeline.trace() lets the transformer alone have int8, all programs f16, and exact neither", async () => {
  using pipeline = await openForPlans();
  const operandsOf = (quality: PipelineRequest["quality"] & string) => {
    const request: PipelineRequest = { ...REQUEST, task: "I2V", images: [GIVEN], quality };
    const { session } = pipeline.trace(BASELINE_TARGET, request, { previews: 1 }, "sequential");
    return session.stages.flatMap(({ programs }) =>
      [...programs].map(([name, { graph }]) => [name, graph.target.operands] as const)
    );
  };
  const high = operandsOf("high").filter(([, operands]) => operands !== "f16");
  assert.deepEqual(high, [["denoise: pass 0", "int8"], ["denoise: pass 1", "int8"]]);
  for (const [quality, expected] of [["lossless", "f16"], ["exact", "f32"]] as const) {
    assert.ok(operandsOf(quality).every(([, operands]) => operands === expected), quality);
  }
});

Deno.test("DiffusionPipeline.trace() takes matrix units in every component that is stored in 16 bits, unless it is exact", async () => {
  using pipeline = await openForPlans(fileURLToPath(import.meta.resolve("../../models/bundled")));
  const target = matrixTarget();
  const kernelsOf = (quality: PipelineRequest["quality"] & string) => {
    const { session } = pipeline.trace(target, { ...REQUEST, quality });
    return session.stages.flatMap(({ name, programs }) =>
      [...programs.values()].flatMap(({ graph }) =>
        graph.dispatches.map(({ kernel }) => `${name} ${kernel.name.split(" ")[0]}`)
      )
    );
  };
  const lossless = new Set(kernelsOf("lossless"));
  for (
    const kernel of [
      ...["text gemm/matrix", "text attention/matrix", "context gemm/matrix"],
      ...["denoise gemm/matrix", "denoise attention/matrix"],
      ...["decode conv/matrix", "decode gemm/matrix", "decode attention/matrix"],
    ]
  ) assert.ok(lossless.has(kernel), kernel);
  assert.deepEqual([...lossless].filter((kernel) => /\/(shared|tiles)$/.test(kernel)), []);
  assert.deepEqual(kernelsOf("exact").filter((kernel) => kernel.endsWith("/matrix")), []);
});

for (
  const [name, change, previews] of [
    ["text", {}, 0],
    ["text with previews", {}, 2],
    ["an image", { task: "I2V", images: [GIVEN] }, 1],
    ["a video", CLIP, 0],
  ] as const
) {
  Deno.test(`WanPipeline.generate() takes what was planned, to the byte, and frees it for another size: ${name}`, () =>
    withPipeline(async ({ device, pipeline, weightBytes }) => {
      using planned = await openForPlans();
      const { runner } = planned.trace(device.target, { ...REQUEST, ...change }, { previews });
      const { peakBytes, kept } = runner.plan({ budgetBytes: Infinity });
      const keptBytes = [...kept].reduce((sum, { byteLength }) => sum + byteLength, 0);
      const expected = weightBytes + peakBytes - keptBytes;
      const request = { ...REQUEST, ...change };
      const room = {
        target: device.target,
        availableBytes: Infinity,
        measure: (bytes: number) => bytes,
      };
      assert.equal((await planned.plan({ ...request, previews }, room)).peakBytes, peakBytes);
      for (let round = 0; round < 2; round++) {
        device.resetPeak();
        await pipeline.generate(request, { previews });
        assert.equal(device.peakBytes, expected);
        await pipeline.generate({ ...REQUEST, width: 64, numFrames: 1 });
        device.resetPeak();
        assert.ok(device.peakBytes < expected);
      }
      pipeline[Symbol.dispose]();
      assert.equal(device.allocatedBytes, 0);
    }));
}

Deno.test("WanPipeline.generate() takes both prompts one by one where only that fits, and refuses what does not fit", async () => {
  const bundled = fileURLToPath(new URL("../../models/bundled", import.meta.url));
  // Many small frames: the transformer needs more than the autoencoder.
  const request = { ...REQUEST, width: 16, height: 16, numFrames: 253 };
  /** Device memory that a session of the request holds. */
  const heldBytes = async ({ device, pipeline }: Fixture) => {
    let isPrepared = false;
    const result = pipeline.generate(request, {
      onProgress: () => isPrepared = true,
      isCancelled: () => isPrepared,
    });
    await assert.rejects(result, { name: "AbortError" });
    return device.allocatedBytes;
  };
  const needs = { batched: 0, sequential: 0 };
  const held = { batched: 0, sequential: 0 };
  await withPipeline(async ({ device }) => {
    using planned = await openForPlans(bundled);
    for (const passes of ["batched", "sequential"] as const) {
      const { runner } = planned.trace(device.target, request, {}, passes);
      const plan = runner.plan({ budgetBytes: Infinity });
      needs[passes] = plan.peakBytes;
      held[passes] = plan.peakBytes - plan.stages[0]!.readBytes;
    }
  }, { folder: bundled });
  assert.ok(needs.sequential < needs.batched, JSON.stringify(needs));
  for (const guidance of ["batched", "sequential"] as const) {
    await withPipeline(async (fixture) => {
      assert.equal(await heldBytes(fixture), held[guidance]);
    }, { folder: bundled, maxBytes: needs[guidance] });
  }
  await withPipeline(async ({ device, pipeline, weightBytes }) => {
    await assert.rejects(pipeline.generate({ ...request, width: 64, height: 64 }), (error) => {
      assert.ok(error instanceof OutOfMemoryError);
      assert.match(
        error.message,
        /^Cannot make 64x64 with 253 frames: it needs \d+ MB on the device, \d+ MB may be taken; /,
      );
      assert.match(
        error.message,
        /\nstage .*\ntext .*\ncontext .*\ndenoise .*\ndecode .*\nAt most/,
      );
      assert.ok(error.requestedBytes > error.availableBytes);
      return true;
    });
    assert.equal(device.allocatedBytes, weightBytes);
    await pipeline.generate({ ...request, numFrames: 1 });
  }, { folder: bundled, maxBytes: 4_000_000 });
});

Deno.test("WanPipeline.generate() stops within every stage when cancelled, and the next request is not touched by it", () =>
  withPipeline(async ({ device, pipeline, weightBytes }) => {
    const { latents } = await pipeline.generate(REQUEST);
    const { allocatedBytes } = device;
    const stops: Partial<PipelineProgress>[] = [
      { stage: "encode", step: 0 },
      { stage: "denoise", step: 0 },
      // What the first step gave is read back, with the next one under way already.
      { stage: "denoise", step: 2 },
      { stage: "decode", step: 0 },
      { stage: "decode", step: 1 },
    ];
    for (const { stage, step } of stops) {
      let reached = Infinity;
      let last: PipelineProgress | undefined;
      const control: PipelineControl = {
        onProgress: (progress) => {
          last = progress;
          if (progress.stage === stage && progress.step === step) reached = device.counters.submits;
        },
        isCancelled: () => device.counters.submits >= reached + 1,
      };
      const name = `${stage} ${step}`;
      // Each has a prompt of its own: one that was encoded already would not be encoded again.
      const request = { ...REQUEST, prompt: `${REQUEST.prompt} ${name}` };
      await assert.rejects(pipeline.generate(request, control), { name: "AbortError" }, name);
      assert.deepEqual([last?.stage, last?.step], [stage, step], "it stops before the next step");
      // Two that are short may be sent at once.
      assert.ok(device.counters.submits - reached <= 2, name);
    }
    assert.equal(device.allocatedBytes, allocatedBytes, "the programs are kept");
    assert.ok(allocatedBytes > weightBytes);
    assert.deepEqual((await pipeline.generate(REQUEST)).latents, latents);
  }, { submitBudget: { flops: 3e6, bytes: 3e6 } }));

Deno.test("WanPipeline.generate() stops while it compiles when cancelled, and leaves nothing allocated", () =>
  withPipeline(async ({ device, pipeline, weightBytes }) => {
    const { submits } = device.counters;
    let asked = 0;
    const control = { isCancelled: () => ++asked > 20 };
    await assert.rejects(pipeline.generate(REQUEST, control), { name: "AbortError" });
    assert.equal(device.counters.submits, submits);
    assert.equal(device.allocatedBytes, weightBytes);
    await pipeline.generate(REQUEST);
  }));

Deno.test("WanPipeline.generate() starts from new buffers after a failure on the device", () =>
  withPipeline(async ({ device, pipeline, weightBytes }) => {
    const { latents } = await pipeline.generate(REQUEST);
    const control: PipelineControl = {
      onProgress: ({ step }) => {
        if (step === 2) device.gpuDevice.createBuffer({ size: 2 ** 50, usage: 0x80 });
      },
    };
    await assert.rejects(pipeline.generate(REQUEST, control), GpuValidationError);
    assert.equal(device.allocatedBytes, weightBytes);
    assert.deepEqual((await pipeline.generate(REQUEST)).latents, latents);
  }));

Deno.test("WanPipeline.generate() refuses what its model cannot make before it works", () =>
  withPipeline(async ({ device, pipeline }) => {
    const { submits } = device.counters;
    const refused: [Partial<PipelineRequest>, RegExp][] = [
      [{ width: 33 }, /32x32|33x32: the width must be a multiple of \d+, for example/],
      [{ height: 0 }, /32x0: the height must be a multiple/],
      [{ numFrames: 0 }, /0 frames: at least 1/],
      [{ numInferenceSteps: 1.5 }, /1.5 steps/],
      [{ guidanceScale: NaN }, /a scale of NaN/],
      [{ seed: 0.5 }, /0.5 is not a safe integer/],
      [{ numFrames: 257 }, /257 frames: the model has positions for 253/],
      [{ task: "I2V" }, /Cannot do I2V with 0 input images: it takes one/],
      [{ images: [GIVEN] }, /Cannot do T2V with 1 input image: it takes none/],
      [{ task: "I2V", images: [GIVEN, GIVEN] }, /I2V with 2 input images: it takes one/],
      [{ task: "I2V", images: [GIVEN], width: 64 }, /an image of 32x32: the result has 64x32/],
      [
        { task: "TI2I", images: [{ ...GIVEN, data: new Uint8Array(3) }] },
        /3 bytes of pixels: 32x32 in RGB has 3072/,
      ],
      [{ task: "V2V", strength: 1 }, /Cannot do V2V without an input video/],
      [{ task: "V2V", strength: 1, video: [] }, /Cannot do V2V without an input video/],
      [{ ...CLIP, strength: undefined! }, /Cannot do V2V without a strength/],
      [{ ...CLIP, strength: 2 }, /strength 2: it must be between 0 and 1/],
    ];
    for (const [change, message] of refused) {
      const result = pipeline.generate({ ...REQUEST, ...change });
      await assert.rejects(result, { name: "RangeError", message });
    }
    assert.equal(device.counters.submits, submits);
  }));

Deno.test("WanPipeline.load() loads a model whose own size the device cannot hold", async () => {
  const { target: { limits } } = await openTestDevice();
  // Of 96 by 96 pixels a kernel of the decoder would need more bindings than there are.
  await withPipeline(async ({ pipeline }) => {
    const size = { numFrames: 1, numInferenceSteps: 1 };
    await assert.rejects(pipeline.generate({ ...REQUEST, ...size, width: 96, height: 96 }), {
      name: "RangeError",
      message: /^Cannot make 96x96 with 1 frame: a kernel needs \d+ storage bindings/,
    });
    const { frames } = await pipeline.generate({ ...REQUEST, ...size, width: 16, height: 16 });
    assert.equal(frames.length, 1);
  }, { limits: { ...limits, maxBindingBytes: 2 ** 15, maxStorageBuffers: 10 } });
});
