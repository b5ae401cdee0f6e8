/** What is timed on the device, on the adapter at hand. */
import assert from "node:assert/strict";
import {
  type Device,
  DeviceTensor,
  Graph,
  instantiate,
  openDevice,
  planMemory,
  profileProgram,
} from "../runtime/mod.ts";
import { workgroupReadKernel } from "../runtime/probes.ts";
import { probeArithmetic, probeReads, withResidents } from "./ceilings.ts";
import { MadeUpWeights, RandomBytes } from "./made_up_weights.ts";
import { fillRandom } from "../runtime/ops/sample_blocks.ts";
import { qwen3Encode } from "./model_parts.ts";
import { LoadedOp, parseCase, variantsOf } from "./loaded_op.ts";
import { LoadedPart, streamingOf, timeRuns } from "./loaded_part.ts";
import { Stopwatch, type TimedWork } from "../runtime/program/stopwatch.ts";
import { QWEN3_CONFIG } from "../models/text_encoders/qwen3.ts";

async function withDevice(use: (device: Device) => Promise<void>): Promise<void> {
  const device = await openDevice();
  try {
    await use(device);
  } finally {
    device.destroy();
  }
}

Deno.test("Stopwatch repeats short work until it fills a measurement, and gives the time of one run", () =>
  withDevice(async (device) => {
    using stopwatch = await Stopwatch.open(device);
    const op = new LoadedOp(device, parseCase("rms_norm:64x64"));
    const run = await op.prepare();
    const encoded: number[] = [];
    const { program } = run;
    const work: TimedWork = {
      submits: program.submits,
      encode(index, times) {
        program.timestamps = this.timestamps;
        encoded.push(times!);
        return program.encode(index, times);
      },
      timestamps: undefined,
    };
    const ms = await stopwatch.time(work, { leastMs: 100, rounds: 2 });
    assert.ok(ms > 0 && ms < 100, `${ms} ms`);
    assert.deepEqual(encoded.slice(0, 2), [1, 1]);
    assert.ok(encoded.at(-1)! > 1, `${encoded.at(-1)} times ${ms} ms`);
    assert.equal(work.timestamps, undefined);
    run[Symbol.dispose]();
    op[Symbol.dispose]();
  }));

Deno.test("probes give rates, of reads the whole first", () =>
  withDevice(async (device) => {
    using stopwatch = await Stopwatch.open(device);
    assert.ok(await probeArithmetic(device, stopwatch, "i8") > 1e8);
    const reads = await probeReads(device, stopwatch, [2 ** 16]);
    assert.deepEqual(reads.map(({ bytes }) => bytes), [2 ** 27, 2 ** 16]);
    assert.ok(reads.every(({ bytesPerSecond }) => bytesPerSecond > 1e7));
  }));

Deno.test("workgroupReadKernel() sums words of workgroup memory that move on with every turn", () =>
  withDevice((device) =>
    withResidents(device, [[2048], [64]], async ([x, y]) => {
      const words = Float32Array.from({ length: 2048 }, (_, i) => i % 4 === 0 ? i / 4 : 0);
      x!.write(words);
      const graph = new Graph("read", device.target);
      graph.dispatch({
        kernel: workgroupReadKernel(16),
        buffers: { x: graph.use(x!), y: graph.use(y!) },
        params: { turns: 2 },
        workgroups: [1, 1, 1],
      });
      const programs = await instantiate(planMemory({ main: graph }), device);
      programs.get("main").submit();
      const sums = await y!.readFloat32();
      for (let lane = 0; lane < 16; lane++) {
        let expected = 0;
        for (let read = 0; read < 32; read++) {
          expected += (lane + read % 16 * 16 + (read < 16 ? 0 : 8)) % 512;
        }
        assert.equal(sums[4 * lane], expected, `lane ${lane}`);
      }
      programs.destroy();
    })
  ));

Deno.test("LoadedOp computes the same with every variant that takes its inputs", () =>
  withDevice(async (device) => {
    const bench = new LoadedOp(device, parseCase("softmax:64x64"));
    const results: Float32Array[] = [];
    for (const variant of variantsOf("softmax")) {
      const run = await bench.prepare(variant);
      assert.match(run.kernels[0]!, /^softmax\//);
      run.program.submit();
      results.push(await bench.result());
      run[Symbol.dispose]();
    }
    const [first, ...others] = results;
    for (const other of others) {
      assert.ok(other.every((value, i) => Math.abs(value - first![i]!) < 1e-6));
    }
    bench[Symbol.dispose]();
  }));

Deno.test("LoadedPart runs a part with weights that are made up, resident and streamed", () =>
  withDevice(async (device) => {
    const config = QWEN3_CONFIG.parse({
      ...{ hidden_size: 1024, intermediate_size: 1024, num_hidden_layers: 1 },
      ...{ num_attention_heads: 4, num_key_value_heads: 2, head_dim: 64 },
    });
    const before = device.allocatedBytes;
    const part = qwen3Encode(config, 8);
    const weights = new MadeUpWeights("BF16", part.hasBias);
    const traced = part.trace(device.target, weights.root, { width: 0, height: 0 });
    for (const isStreamed of [false, true]) {
      const streaming = isStreamed ? streamingOf(weights) : {};
      const bench = await LoadedPart.load(device, traced, weights, streaming);
      const { wallMs, busyMs, waits } = await timeRuns(bench.program);
      assert.ok(wallMs > 0 && waits > 0);
      if (device.target.features.timestamps) assert.ok(busyMs! > 0 && busyMs! < 2 * wallMs);
      assert.ok(await bench.isFinite());
      assert.equal(bench.loading.weightBytes < weights.byteLength, isStreamed);
      if (!isStreamed) assert.ok((await profileProgram(bench.program)).length > 2);
      bench[Symbol.dispose]();
      weights.destroy();
    }
    assert.equal(device.allocatedBytes, before);
  }));

Deno.test("RandomBytes have mean 0 and the deviation that was asked for, in every format", async () => {
  const values = new Float32Array(2 ** 16);
  new RandomBytes("f32", 3).read(0, new Uint8Array(values.buffer));
  const square = values.reduce((sum, value) => sum + value * value, 0) / values.length;
  assert.ok(Math.abs(Math.sqrt(square) - 3) < 0.1, `${Math.sqrt(square)}`);
  const [one, two] = [new Uint8Array(8), new Uint8Array(4)];
  const random = new RandomBytes("bf16", 1);
  random.read(0, one);
  random.read(4, two);
  assert.deepEqual(two, one.subarray(4));
  await withDevice(async (device) => {
    for (const dtype of ["f32", "f16", "q4_k", "q8_0"] as const) {
      const tensor = new DeviceTensor("x", [64, 512], dtype);
      tensor.allocate(device);
      fillRandom(tensor, 1);
      assert.ok((await tensor.readBytes()).some((byte) => byte !== 0), dtype);
      tensor.destroy();
    }
  });
});
