import assert from "node:assert/strict";
import type { Device } from "../device/device.ts";
import { Graph } from "../graph/graph.ts";
import type { DeviceOptions } from "../open_device.ts";
import { copyTo } from "../ops/copy/mod.ts";
import { elementwise } from "../ops/elementwise/mod.ts";
import { linear } from "../ops/linear/mod.ts";
import { planMemory, planSlabs } from "./plan.ts";
import { type Executable, instantiate } from "./executable.ts";
import type { RunControl } from "../run_control.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { runSequence } from "./work_queue.ts";
import { cutSegments, type Segment, type StreamingOptions } from "./segments.ts";
import { BASELINE_TARGET, type Target } from "../target.ts";
import { cutIntoPieces } from "../windows.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";

const LAYERS = 9;
const SIZE = 48;

/** A weight whose source counts how often it is read, and fails when it is told to. */
interface CountedWeight {
  readonly tensor: DeviceTensor;
  reads: number;
  seed: number;
  failure?: Error;
}

function countedWeight(layer: number): CountedWeight {
  const weight: CountedWeight = {
    tensor: new DeviceTensor(`layers.${layer}`, [SIZE, SIZE], "f32", (target) => {
      weight.reads++;
      if (weight.failure) throw weight.failure;
      target.write(Float32Array.from({ length: SIZE * SIZE }, (_, i) => {
        const hash = Math.imul(i + 1, 2654435761) ^ Math.imul(weight.seed, 40503);
        return ((hash >>> 8) % 1000) / 3000 - 1 / 6;
      }));
    }),
    reads: 0,
    seed: layer,
  };
  return weight;
}

/** Layers one after the other, each followed by work without weights; the first weight is used once more at the end. */
function traceChain(target: Target) {
  const weights = Array.from({ length: LAYERS }, (_, layer) => countedWeight(layer));
  const input = new DeviceTensor("input", [4, SIZE]);
  const output = new DeviceTensor("output", [4, SIZE]);
  const graph = new Graph("chain", target);
  let x = graph.use(input);
  for (const { tensor } of [...weights, weights[0]!]) {
    const y = linear(x, graph.use(tensor));
    x = elementwise("a + 0.5 * b", { a: x, b: y });
  }
  copyTo(x, output);
  return { graph, weights, input, output };
}

interface Chain extends ReturnType<typeof traceChain> {
  readonly device: Device;
  readonly program: Executable;
  run(control?: RunControl): Promise<Uint8Array>;
}

async function withChain<T>(
  streaming: (weights: readonly CountedWeight[]) => StreamingOptions,
  use: (chain: Chain) => Promise<T>,
  options: DeviceOptions = {},
): Promise<T> {
  const device = await openTestDevice(options);
  try {
    const chain = traceChain(device.target);
    const chosen = streaming(chain.weights);
    const plan = planMemory({ chain: chain.graph }, chosen);
    for (const { tensor } of chain.weights) {
      if (!chosen.streamed?.has(tensor)) tensor.allocate(device).fill();
    }
    chain.input.allocate(device).write(Float32Array.from({ length: 4 * SIZE }, (_, i) => i % 7));
    chain.output.allocate(device);
    assert.equal(plan.tensorBytes, device.allocatedBytes, "planned tensors");
    const programs = await instantiate(plan, device);
    assert.equal(plan.peakBytes, device.allocatedBytes, "planned bytes");
    const program = programs.get("chain");
    const run = async (control?: RunControl) => {
      await runSequence(device, [{ programs: [program], stage: "chain" }], control);
      return await chain.output.readBytes();
    };
    return await use({ ...chain, device, program, run });
  } finally {
    device.destroy();
  }
}

const all = (weights: readonly CountedWeight[]) => new Set(weights.map(({ tensor }) => tensor));
const everything = (weights: readonly CountedWeight[]) => ({ streamed: all(weights) });
const reads = ({ weights }: Chain) => weights.reduce((sum, weight) => sum + weight.reads, 0);

Deno.test("cutSegments() gives every dispatch its streamed weights, in places apart, within one buffer each", () => {
  const limits = { ...BASELINE_TARGET.limits, maxBindingBytes: 4096, maxBufferBytes: 10_000 };
  const { graph, weights } = traceChain({ ...BASELINE_TARGET, limits });
  for (let choice = 1; choice < 2 ** LAYERS; choice += 7) {
    const streamed = new Set(
      weights.filter((_, i) => choice >> i & 1).map(({ tensor }) => tensor),
    );
    const segmentBytes = choice % 5 * 10_000;
    const segments = cutSegments(graph.dispatches, { streamed, segmentBytes }, limits);
    graph.dispatches.forEach(({ tensors, label }, i) => {
      for (const { memory } of tensors) {
        if ("id" in memory || !streamed.has(memory)) continue;
        assert.ok(segments[i]?.places.has(memory), `choice ${choice}: ${label} lacks a weight`);
      }
    });
    const distinct = [...new Set(segments)].filter((segment) => segment !== undefined);
    distinct.forEach(({ slab, places, byteLength }, i) => {
      assert.equal(slab, i % 2);
      assert.ok(places.size === 1 || byteLength <= segmentBytes, `${byteLength} bytes`);
      const taken: { start: number; end: number }[] = [];
      for (const [weight, ranges] of places) {
        const pieces = cutIntoPieces(weight.byteLength, limits);
        assert.deepEqual(ranges.map(({ size }) => size), pieces.map(({ size }) => size));
        for (const { buffer, offset, size } of ranges) {
          assert.ok(offset % 256 === 0 && offset + size <= 9984, `${offset} + ${size}`);
          const start = buffer * 9984 + offset;
          assert.ok(start + size <= byteLength);
          assert.ok(taken.every((other) => other.end <= start || start + size <= other.start));
          taken.push({ start, end: start + size });
        }
      }
    });
  }
});

Deno.test("planMemory() refuses to stream what a program writes, or what has no source", () => {
  const { graph, output } = traceChain(BASELINE_TARGET);
  assert.throws(() => planMemory({ graph }, { streamed: new Set([output]) }), TypeError);
  const input = new DeviceTensor("input", [4]);
  const reading = new Graph("reading", BASELINE_TARGET);
  elementwise("a + 1.0", { a: reading.use(input) });
  assert.throws(
    () => planMemory({ reading }, { streamed: new Set([input]) }),
    /Cannot stream tensor "input".*cannot be read again/,
  );
});

Deno.test("runSequence() with streamed weights gives what resident ones give, bit for bit, whatever is streamed", async () => {
  const limits = { maxBindingBytes: 4096, maxBufferBytes: 10_240 };
  for (const options of [{}, { limits }]) {
    const expected = await withChain(() => ({}), ({ run }) => run(), options);
    assert.ok(expected.some((byte) => byte !== 0));
    for (const choice of [0b111111111, 0b1, 0b101010101, 0b111110000, 0b000000110]) {
      for (const segmentBytes of [0, 20_000, 1e9]) {
        const streaming = (weights: readonly CountedWeight[]) => ({
          streamed: all(weights.filter((_, i) => choice >> i & 1)),
          segmentBytes,
        });
        await withChain(streaming, async ({ run }) => {
          for (let i = 0; i < 3; i++) assert.deepEqual(await run(), expected, `run ${i}`);
        }, options);
      }
    }
  }
});

Deno.test("planMemory() takes the memory of two segments for streamed weights, however many there are", () => {
  const { graph, weights } = traceChain(BASELINE_TARGET);
  const tensor = planMemory({ graph });
  const streamed = planMemory({ graph }, { streamed: all(weights) });
  const one = SIZE * SIZE * 4;
  assert.deepEqual(streamed.slabBytes, [one, one]);
  assert.equal(tensor.peakBytes - streamed.peakBytes, (LAYERS - 2) * one);
  const last = new Set([weights.at(-1)!.tensor]);
  assert.deepEqual(planMemory({ graph }, { streamed: last }).slabBytes, [one, 0]);
  assert.deepEqual(planSlabs({ graph, other: graph }, { streamed: last }), [one, 0]);
});

Deno.test("Slab.load() reads nothing again that the slab still holds, until the source changes", async () => {
  const two = (weights: readonly CountedWeight[]) => ({
    streamed: all(weights),
    segmentBytes: SIZE * SIZE * 4 * 5,
  });
  await withChain(two, async (chain) => {
    const first = await chain.run();
    // The first weight is part of both segments.
    assert.equal(reads(chain), LAYERS + 1);
    assert.deepEqual(await chain.run(), first);
    assert.equal(reads(chain), LAYERS + 1);
    chain.weights[2]!.seed = 77;
    chain.weights[2]!.tensor.sourceChanged();
    assert.notDeepEqual(await chain.run(), first);
    assert.equal(chain.weights[2]!.reads, 2);
    assert.equal(chain.weights.at(-1)!.reads, 1, "the other segment");
  });
  await withChain(everything, async (chain) => {
    const first = await chain.run();
    assert.equal(reads(chain), LAYERS + 1);
    assert.deepEqual(await chain.run(), first);
    assert.equal(reads(chain), 2 * (LAYERS + 1));
  });
});

Deno.test("DeviceTensor.pin() keeps a host copy that streaming reads instead of the source", async () => {
  await withChain(everything, async (chain) => {
    const expected = await chain.run();
    for (const { tensor } of chain.weights) tensor.pin();
    const before = reads(chain);
    for (let i = 0; i < 2; i++) assert.deepEqual(await chain.run(), expected);
    assert.equal(reads(chain), before + LAYERS, "once for each copy");
    chain.weights[0]!.seed = 50;
    chain.weights[0]!.tensor.sourceChanged();
    assert.notDeepEqual(await chain.run(), expected, "the copy is brought up to date");
  });
  assert.throws(() => new DeviceTensor("input", [4]).pin(), /declared without a source/);
});

Deno.test("runSequence() fails with the source's error when weights cannot be read, and works again later", async () => {
  await withChain(everything, async (chain) => {
    const expected = await chain.run();
    for (const layer of [0, 4, LAYERS - 1]) {
      const weight = chain.weights[layer]!;
      weight.failure = new SyntaxError(`the file is too short for layer ${layer}`);
      await assert.rejects(chain.run(), weight.failure);
      delete weight.failure;
      assert.deepEqual(await chain.run(), expected);
    }
  });
});

Deno.test("runSequence() can be cancelled between segments", async () => {
  await withChain(everything, async (chain) => {
    const expected = await chain.run();
    for (let after = 0; after < LAYERS; after++) {
      let asked = 0;
      await assert.rejects(chain.run({ isCancelled: () => asked++ >= after }), /cancelled/);
    }
    assert.deepEqual(await chain.run(), expected);
  });
});

Deno.test("runSequence() reads no further ahead than the segment after the one at work", async () => {
  await withChain(everything, async (chain) => {
    const { device, weights } = chain;
    let [written, most] = [0, 0];
    const [write, wait] = [device.write.bind(device), device.wait.bind(device)];
    device.write = (buffer, offset, bytes) => {
      written += bytes.byteLength;
      write(buffer, offset, bytes);
    };
    device.wait = async (next) => {
      await wait(next);
      most = Math.max(most, written);
      written = 0;
    };
    await chain.run();
    assert.equal(reads(chain), weights.length + 1);
    assert.ok(most <= 2 * SIZE * SIZE * 4, `${most} bytes between two waits`);
  });
});

Deno.test("Executable.segmentFrom() is where weights come into use, once for all submits of a segment", async () => {
  const device = await openTestDevice();
  try {
    const { graph, weights, input, output } = traceChain({
      ...device.target,
      submitBudget: { flops: 1, bytes: 1 },
    });
    for (const tensor of [input, output]) tensor.allocate(device);
    const segmentBytes = SIZE * SIZE * 4 * 5;
    const plan = planMemory({ graph }, { streamed: all(weights), segmentBytes });
    const program = (await instantiate(plan, device)).get("graph");
    const starts = program.submits.map((_, i) => program.segmentFrom(i));
    const found = starts.filter((segment): segment is Segment => segment !== undefined);
    assert.ok(starts.length > 10);
    assert.deepEqual(found.map(({ slab }) => slab), [0, 1]);
  } finally {
    device.destroy();
  }
});
